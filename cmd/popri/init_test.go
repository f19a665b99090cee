package main

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"popri/configs"
	"popri/datasets/clients"
	"popri/testkit/testfile"
)

// posts are 60 clients with 4 texts each, as a CSV with a semicolon and as JSON lines.
func posts() (csv, jsonl string) {
	var c, j strings.Builder
	c.WriteString("id;author;written;body\n")
	for i := range 240 {
		text := fmt.Sprintf("post %d says that the weather of day %d was fine for a walk in the hills", i, i%17)
		fmt.Fprintf(&c, "%d;user %d;2024-02-%02d;%s\n", i, i/4, 1+i%28, text)
		fmt.Fprintf(&j, `{"author": {"name": "user %d"}, "body": %q}`+"\n", i/4, text)
	}
	return c.String(), j.String()
}

func TestInit(t *testing.T) {
	csv, jsonl := posts()
	jsonl = strings.ReplaceAll(jsonl, `{"name"`, `{"mail": null, "name"`)
	dayFirst := strings.ReplaceAll(strings.ReplaceAll(csv, "written", "date"), "2024-02-", "28/02/")
	public := strings.Repeat("a line of public text that anybody may read in the library\n", 50)
	for name, c := range map[string]struct{ content, client string }{
		"posts.csv": {csv, "author"}, "day.csv": {dayFirst, "author"}, "posts.jsonl": {jsonl, "author.name"}, "posts.parquet": {"", "client_id"}} {
		t.Run(name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			files := map[string]string{"posts.csv": csv, "public.txt": public, name: c.content}
			for file, content := range files {
				testfile.Write(t, file, content)
			}
			if name == "posts.parquet" {
				if code, _, errs := popri(t, "data", "import", "posts.csv", "--client", "author", "--text", "body", "--out", name); code != 0 {
					t.Fatal(errs)
				}
			}
			code, out, errs := popri(t, "init", name, "--public", "public.txt", "--json")
			if code != 0 || !strings.Contains(errs, fmt.Sprintf("client %q", c.client)) {
				t.Fatalf("%d, %s", code, errs)
			}
			plan := decode(t, out)
			population, err := clients.Read(ownFile)
			if err != nil || len(population.Clients) != 60 || number(t, plan, "seconds") <= 0 || number(t, plan, "budget") != 7 {
				t.Fatalf("%d clients, %v; %v", len(population.Clients), err, plan)
			}
			written, err := os.ReadFile(ownConfig)
			if err != nil || strings.Count(string(written), " # ") < 20 {
				t.Errorf("%s, %v", written, err)
			}
			config, err := configs.Load(configs.LoadOptions{File: ownConfig})
			if err != nil || config.Data.Private != ownFile || config.Data.Public != "public.txt" || config.Privacy.Delta != 1e-4 {
				t.Errorf("%+v, %v", config, err)
			}
			// The folder's configuration is the run's, unless the command line names another.
			if code, out, errs := popri(t, "run", "--dry-run", "--set", "privacy.epsilon=3", "--json"); code != 0 ||
				number(t, decode(t, out), "budget") != 3 {
				t.Errorf("%d, %s%s", code, out, errs)
			}
			if code, _, errs := popri(t, "init", name); code != exitUsage || !strings.Contains(errs, ownConfig+" is here already") {
				t.Errorf("a second init: %d, %s", code, errs)
			}
		})
	}
}

// A mistake names the file and the column, and leaves no file behind.
func TestInitMistakes(t *testing.T) {
	t.Chdir(t.TempDir())
	csv, _ := posts()
	testfile.Write(t, "posts.csv", csv)
	testfile.Write(t, "latin1.csv", strings.Replace(csv, "fine", "d\xe9j\xe0 vu", 1))
	for _, c := range [][]string{
		{"posts.csv --client autor", "posts.csv", `"autor" for the client`, "author"},
		{"posts.csv --text bodi", "posts.csv", `"bodi" for the text`, "body"},
		{"posts.csv --date body", "posts.csv", "line 2", "date"},
		{"none.csv", "none.csv"}, {"latin1.csv", "not UTF-8", "popri data import"},
		{"posts.csv --preset larg", `"larg"`},
	} {
		code, _, errs := popri(t, append([]string{"init"}, strings.Fields(c[0])...)...)
		for _, word := range c[1:] {
			if code != exitUsage || !strings.Contains(errs, word) {
				t.Errorf("init %s: %d, %s lacks %s", c[0], code, errs, word)
			}
		}
		if _, err := os.Stat(ownConfig); err == nil {
			t.Errorf("init %s wrote %s", c[0], ownConfig)
		}
	}
}
