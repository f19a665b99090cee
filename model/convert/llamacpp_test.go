package convert_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"popri/datasets"
	"popri/datasets/speeches"
	"popri/model/lm"
	"popri/model/tensor"
	"popri/testkit/testfile"
	"popri/testkit/testmodel"
)

// TestForLlamaCpp writes files of the golden models, and of the folders that POPRI_GGUF_MODELS lists, into the folder
// POPRI_GGUF_OUT, with what popri makes of each: ids of texts, greedy continuations, and the mean negative log-likelihood
// of chunks. scripts/check_gguf.py compares that with llama.cpp.
func TestForLlamaCpp(t *testing.T) {
	out := os.Getenv("POPRI_GGUF_OUT")
	if out == "" {
		t.Skip("POPRI_GGUF_OUT names no folder")
	}
	folders := map[string]string{}
	for _, file := range goldenFiles(t) {
		folders[filepath.Base(filepath.Dir(file))] = importTo(t, file, "float32")
	}
	for _, dir := range filepath.SplitList(os.Getenv("POPRI_GGUF_MODELS")) {
		folders[filepath.Base(dir)] = dir
	}
	_, public, err := speeches.Files()
	if err != nil {
		t.Fatal(err)
	}
	texts, err := datasets.ReadPublic(public)
	if err != nil {
		t.Fatal(err)
	}
	var each []string
	for i := 0; i < len(texts); i += 60 {
		each = append(each, texts[i].Text)
	}
	each = append(each, "", " ", "A\n\n  b\t\tc  \n", "1 22 333 4444", "I'LL we've  don't", "日本 😀 ßé", "    def f(x):\n\treturn x+1\n",
		"tail   ", "<s>Lily</s> ran", "a<|endoftext|> b", "snake_case CamelCase x*=2 // !?…", "Ünïcödé\u00a0nbsp\u2003em", "<|im_start|>user\nHi<|im_end|>\n")
	for name, dir := range folders {
		writeCase(t, filepath.Join(out, name), dir, each)
	}
}

func writeCase(t *testing.T, out, dir string, texts []string) {
	t.Helper()
	for _, kind := range []string{"f32", "f16", "q8_0", "q4_0"} {
		path, _ := export(t, dir, kind)
		testfile.Write(t, filepath.Join(out, kind+".gguf"), testfile.Read(t, path))
		testfile.Remove(t, path)
	}
	tok := testmodel.Tokenizer(t, dir)
	m := testmodel.Load(t, dir, lm.Options{})
	defer m.Free()
	var c struct {
		Texts   []map[string]any `json:"texts"`
		Chunks  [][]int32        `json:"chunks"`
		Loss    float64          `json:"loss"`
		Prompts [][]int32        `json:"prompts"`
		Next    [][]int32        `json:"next"`
	}
	for _, text := range texts {
		c.Texts = append(c.Texts, map[string]any{"text": text, "ids": tok.Encode(text)})
	}
	ids := tok.Encode(strings.Join(texts[:len(texts)-20], "\n\n"))
	length := min(256, m.Config.Context)
	var rows []lm.Row
	most := 2048
	if m.Parameters() > 1e6 {
		most = 16384
	}
	for ; len(ids) >= length && len(rows) < most/length; ids = ids[length:] {
		c.Chunks = append(c.Chunks, ids[:length])
		rows = append(rows, lm.Row{Tokens: ids[:length], Labels: ids[:length]})
	}
	err := tensor.Run(func(s *tensor.Scope) (err error) {
		c.Loss, _, err = m.Evaluate(s, rows, nil, 1024, nil)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for i := range min(10, len(rows)) {
		c.Prompts = append(c.Prompts, c.Chunks[i][:24])
	}
	samples, err := m.Generate(t.Context(), c.Prompts, 1, lm.SampleOptions{MaxNewTokens: 32, IgnoreEOS: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range samples {
		c.Next = append(c.Next, s[0].IDs)
	}
	testfile.WriteJSON(t, filepath.Join(out, "cases.json"), c)
}
