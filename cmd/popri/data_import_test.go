package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"popri/datasets/clients"
)

func TestDataImport(t *testing.T) {
	dir := t.TempDir()
	posts := write(t, dir, "posts.csv", "author,body,created,topic\nann,one two three,2001-02-03,x\nbob,four,2001-02-04,y\nbob, ,2001-02-04,y\n")
	out := filepath.Join(dir, "clients.parquet")
	args := []string{"data", "import", posts, "--client", "author", "--text", "body", "--date", "created", "--label", "topic", "--out", out}
	if code, _, errs := popri(t, args...); code != exitUsage || !strings.Contains(errs, posts+": line 4: text is blank (1 bytes)") {
		t.Errorf("a blank text: exit code %d, %s", code, errs)
	}
	code, printed, errs := popri(t, append(args, "--skip-blank", "--split-shares", "1,0,0", "--span-words", "2", "--json")...)
	if code != 0 {
		t.Fatalf("exit code %d: %s", code, errs)
	}
	v := decode(t, printed)
	if v["rows"] != 3.0 || v["clients"] != 2.0 || v["manifest"].(map[string]any)["texts_read"] != 3.0 {
		t.Errorf("%s", printed)
	}
	if p, err := clients.Read(out); err != nil || p.Clients[0].Texts[1] != "three" || p.Clients[1].Label != "y" {
		t.Errorf("%+v, %v", p, err)
	}
	if _, err := os.Stat(out + clients.ManifestSuffix); err != nil {
		t.Error(err)
	}

	train := write(t, dir, "train.json", `{"ann": ["one"], "bob": ["two"]}`)
	eval := write(t, dir, "eval.json", `["three"]`)
	for _, args := range [][]string{{"--published-json", train + "," + eval + ","}, {"train=" + train, "validation=" + eval}} {
		code, printed, errs := popri(t, append([]string{"data", "import", "--json", "--out", out}, args...)...)
		if code != 0 || decode(t, printed)["splits"].(map[string]any)["validation"].(map[string]any)["clients"] != 1.0 {
			t.Errorf("%v: exit code %d, %s%s", args, code, printed, errs)
		}
	}

	tokens := filepath.Join(dir, "no-tokenizer")
	for want, args := range map[string][]string{
		"no file is named":               {},
		"names no file":                  {train},
		"is one of the files to import":  {train, "--out", train},
		"is a folder":                    {"train=" + train, "--out", dir},
		"names all files itself":         {train, "--published-json", train + ",,", "--out", out},
		"go together":                    {"train=" + train, "--span-tokens", "4", "--out", out},
		"no-tokenizer":                   {"train=" + train, "--span-tokens", "4", "--tokenizer", tokens, "--out", out},
		"is a file of the clients":       {"train=" + train, "--deduplicate", "near", "--public", train, "--out", out},
		"has a column client_id":         {"train=" + train, "--deduplicate", "near", "--public", clientFile(t, []clientRow{{"a", "train", "", "x"}}), "--out", out},
		"it is a file of clients":        {"train=" + train, "--deduplicate", "near", "--public", write(t, dir, "other.json", `{"a": ["x"]}`), "--out", out},
		"public text goes with":          {"train=" + train, "--public", eval, "--out", out},
		"want three shares":              {train, "--split-shares", "0.5,0.5", "--out", out},
		`"x" is no number`:               {train, "--split-shares", "x,0,0", "--out", out},
		"a partition needs the number o": {eval, "--partition", "iid", "--out", out},
	} {
		if code, _, errs := popri(t, append([]string{"data", "import"}, args...)...); code != exitUsage || !strings.Contains(errs, want) ||
			!strings.HasPrefix(errs, "popri: data import: ") && !strings.Contains(errs, "read ") {
			t.Errorf("%v: exit code %d, %q, want %q", args, code, errs, want)
		}
	}
}

func TestDataPushReadyRefuses(t *testing.T) {
	for want, args := range map[string][]string{"--out names no folder": {t.TempDir()}, "is no run": {t.TempDir(), "--out", filepath.Join(t.TempDir(), "hub")}} {
		if code, _, errs := popri(t, append([]string{"data", "push-ready"}, args...)...); code != exitUsage || !strings.Contains(errs, want) {
			t.Errorf("%v: exit code %d, %q, want %q", args, code, errs, want)
		}
	}
}
