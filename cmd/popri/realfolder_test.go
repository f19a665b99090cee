package main

import (
	"path/filepath"
	"strings"
	"testing"

	"popri/model/tokenizer"
	"popri/testkit/testfile"
)

// published turns a model's folder into one as people publish them: bookkeeping in config.json, a vocabulary without
// some control characters, files that begin with a byte-order mark.
func published(t *testing.T, dir string) {
	t.Helper()
	testfile.EditJSON(t, filepath.Join(dir, "config.json"),
		func(c map[string]any) { c["_model_name_or_path"] = "someone/something" })
	testfile.EditJSON(t, filepath.Join(dir, tokenizer.FileName), func(f map[string]any) {
		for piece, id := range f["model"].(map[string]any)["vocab"].(map[string]any) {
			if n := id.(float64); piece == "Ā" || piece == "ā" { // the bytes 0 and 1; their ids stay in use
				vocab := f["model"].(map[string]any)["vocab"].(map[string]any)
				delete(vocab, piece)
				vocab["unused "+piece] = n
			}
		}
	})
	for _, name := range []string{"config.json", tokenizer.FileName} {
		path := filepath.Join(dir, name)
		content := testfile.Read(t, path)
		testfile.Write(t, path, append([]byte("\ufeff"), content...))
	}
}

// A folder as people publish it can be used as it is.
func TestPublishedFolder(t *testing.T) {
	model, dir := tinyModel(t), t.TempDir()
	published(t, model)
	prompts := write(t, dir, "prompts.jsonl", "\ufeff{\"prompt\": \"the\\u0001 cat\"}\n{\"prompt\": \"the cat\"}\n")
	code, stdout, errs := popri(t, "generate", "--model", model, "--prompts", prompts, "--temperature", "0",
		"--max-new-tokens", "4")
	if code != 0 {
		t.Fatal(errs)
	}
	if got := lines(t, stdout); len(got) != 2 || got[0].Text != got[1].Text {
		t.Errorf("a byte that the vocabulary lacks is not dropped: %+v", got)
	}
}

// A field of config.json that is not known is refused, with the way to accept it, which works for every verb that reads
// a model.
func TestAcceptKey(t *testing.T) {
	model, dir := tinyModel(t), t.TempDir()
	testfile.EditJSON(t, filepath.Join(model, "config.json"), func(c map[string]any) { c["mup_scale"] = 2 })
	write(t, model, "prompts.json", "[[1, 2, 3], [4, 5]]")
	prompts := write(t, dir, "prompts.jsonl", "{\"prompt\": \"the\"}\n")
	pairs := write(t, dir, "pairs.jsonl", "{\"prompt\": \"the\", \"chosen\": \" cat\", \"rejected\": \" hat\"}\n")
	for _, args := range [][]string{
		{"generate", "--model", model, "--prompts", prompts, "--max-new-tokens", "2"},
		{"dpo", "--model", model, "--pairs", pairs, "--out", filepath.Join(dir, "adapter")},
		{"bench", "generate", "--model", model, "--k", "2", "--j", "1", "--new", "2"},
	} {
		code, _, errs := popri(t, args...)
		if code != exitUsage || !strings.Contains(errs, "--accept-key mup_scale") ||
			!strings.Contains(errs, "config.json") {
			t.Errorf("%s: exit code %d: %s", args[0], code, errs)
		}
		if code, _, errs := popri(t, append(args, "--accept-key", "mup_scale")...); code != 0 {
			t.Errorf("%s with the field accepted: exit code %d: %s", args[0], code, errs)
		}
	}
}

// A file that a benchmark is given and that is not there is the user's mistake, and is named.
func TestBenchNamesMissingFiles(t *testing.T) {
	model, none := tinyModel(t), filepath.Join(t.TempDir(), "none")
	texts := write(t, t.TempDir(), "texts.jsonl", "{\"text\": \"the cat\"}\n")
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"generate", "--model", model}, filepath.Join(model, "prompts.json")},
		{[]string{"generate", "--model", none}, none},
		{[]string{"dpo", "--model", model}, filepath.Join(model, "pairs.json")},
		{[]string{"embed", "--model", none, "--texts", texts}, none},
		{[]string{"embed", "--model", model, "--texts", none}, none},
	} {
		code, _, errs := popri(t, append([]string{"bench"}, c.args...)...)
		if code != exitUsage || !strings.Contains(errs, c.want) {
			t.Errorf("bench %s: exit code %d: %s", strings.Join(c.args, " "), code, errs)
		}
	}
}
