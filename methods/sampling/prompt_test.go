package sampling

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"popri/configs"
	"popri/datasets"
	"popri/model/tokenizer"
)

func newTokenizer(t *testing.T, texts ...string) *tokenizer.Tokenizer {
	t.Helper()
	tok, err := tokenizer.TrainBPE(slices.Values(texts),
		tokenizer.TrainOptions{VocabSize: 300, SpecialTokens: []string{"<|endoftext|>"}})
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

func publicTexts(n int) (out []datasets.Text) {
	for i := range n {
		out = append(out, datasets.Text{Text: strings.Repeat(fmt.Sprintf("text %d goes on. ", i), 1+i%4)})
	}
	return out
}

func newPrompter(t *testing.T, g configs.Generate, context, longest int) *Prompter {
	t.Helper()
	p, err := NewPrompter(newTokenizer(t, "text goes on and on", "Original Text Sample"), g,
		configs.Data{MaxTokens: 200}, publicTexts(20), context, longest)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestLinePrompts(t *testing.T) {
	p := newPrompter(t, configs.Generate{Examples: 2}, 400, 10)
	eos, _ := p.tok.EOS()
	prompts, err := p.Draw(rand.New(rand.NewPCG(1, 2)), 30)
	if err != nil {
		t.Fatal(err)
	}
	again, _ := p.Draw(rand.New(rand.NewPCG(1, 2)), 30)
	for i, x := range prompts {
		if x.IDs[0] != eos || p.tok.Decode(x.IDs[1:], false) != x.Text {
			t.Errorf("the ids of %q are those of %q", x.Text, p.tok.Decode(x.IDs, false))
		}
		lines := strings.Split(x.Text, "\n")
		if len(lines) != 3 || lines[2] != "" || !slices.Contains(p.texts, lines[0]) ||
			!slices.Contains(p.texts, lines[1]) {
			t.Errorf("the prompt %q is not two public texts, a line each", x.Text)
		}
		if !slices.Equal(x.IDs, again[i].IDs) {
			t.Error("the same seed draws other prompts")
		}
	}
	if !slices.Equal(p.stopTokens(), p.tok.Encode("\n")) || p.stop() != nil {
		t.Error("a line's end does not end a sample")
	}
	ids := p.tok.Encode("goes  on")
	text, completion := p.Read(ids, true)
	if text != "goes on" || !slices.Equal(completion, append(slices.Clone(ids), p.newline...)) {
		t.Errorf("read %q, %v", text, completion)
	}
	if _, completion = p.Read(ids, false); !slices.Equal(completion, ids) {
		t.Errorf("a sample that was cut off got an end: %v", completion)
	}
}

func TestTemplatePrompts(t *testing.T) {
	g := configs.Generate{Examples: 3, TemplateHeader: "List of 6 originals:", TemplateItem: "Original Text Sample {i}"}
	p := newPrompter(t, g, 1000, 40)
	prompts, err := p.Draw(rand.New(rand.NewPCG(1, 2)), 5)
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range prompts {
		if !strings.HasPrefix(x.Text, "List of 6 originals:\nOriginal Text Sample 1\n") ||
			!strings.HasSuffix(x.Text, "\nOriginal Text Sample 4\n") ||
			strings.Count(x.Text, "Original Text Sample") != 4 {
			t.Errorf("the prompt is %q", x.Text)
		}
		if p.tok.Decode(x.IDs, false) != x.Text {
			t.Errorf("the ids are those of %q", p.tok.Decode(x.IDs, false))
		}
	}
	if p.stopTokens() != nil {
		t.Error("a line's end ends a sample")
	}

	// Only the whole marker ends a sample, at whatever token it becomes complete.
	stop, eos := p.stop(), p.separator
	for text, want := range map[string]string{
		"Orig goes on, Original Text too":                    "",
		"goes on.\n\nOriginal Text Sampl":                    "",
		"goes on.\n\nOriginal Text Sample":                   "goes on.",
		"goes on.\n\nOriginal Text Sample 5\nmore text":      "goes on.",
		"Original Text Sample":                               "",
		strings.Repeat("go ", 50) + "\nOriginal Text Sample": strings.TrimSpace(strings.Repeat("go ", 50)),
	} {
		ids := p.tok.Encode(text)
		ended := -1
		for n := range len(ids) + 1 {
			if stop(nil, ids[:n]) {
				ended = n
				break
			}
		}
		at := strings.Index(text, "Original Text Sample")
		if at < 0 {
			if ended >= 0 {
				t.Errorf("%q ends after %q", text, p.tok.Decode(ids[:ended], false))
			}
			continue
		}
		if ended < 0 || !strings.Contains(p.tok.Decode(ids[:ended], false), "Original Text Sample") ||
			strings.Contains(p.tok.Decode(ids[:ended-1], false), "Original Text Sample") {
			t.Errorf("%q ends after %d of %d tokens", text, ended, len(ids))
			continue
		}
		got, completion := p.Read(ids[:ended], true)
		if got != want || len(completion) > p.longest || len(completion) < p.longest &&
			!slices.Equal(completion, append(p.tok.Encode(want), eos)) {
			t.Errorf("%q reads %q with the completion %q", text, got, p.tok.Decode(completion, false))
		}
	}
}

// TestPromptsFit: prompts leave room for the longest completion, whatever is drawn; where that cannot be, it is said.
func TestPromptsFit(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for _, item := range []string{"", "Text {i}"} {
		for range 30 {
			context, longest := 20+random.IntN(300), 1+random.IntN(60)
			p := newPrompter(t, configs.Generate{Examples: random.IntN(5), TemplateItem: item}, context, longest)
			prompts, err := p.Draw(random, 10)
			if err != nil {
				if !strings.Contains(err.Error(), "do not fit") {
					t.Error(err)
				}
				continue
			}
			for _, x := range prompts {
				// Bytes that are no text grow when they are encoded again.
				ids := make([]int32, longest)
				for i := range ids {
					ids[i] = int32(random.IntN(256))
				}
				if _, completion := p.Read(ids, true); len(x.IDs) == 0 || len(x.IDs)+len(completion) > context {
					t.Fatalf("a prompt of %d tokens and a completion of %d in a context of %d", len(x.IDs),
						len(completion), context)
				}
			}
		}
	}
}

func TestUnfitPrompts(t *testing.T) {
	tok := newTokenizer(t, "text")
	for _, c := range []struct {
		g         configs.Generate
		texts     int
		maxTokens int
		want      string
	}{
		{configs.Generate{Examples: 1}, 0, 200, "0 of 0 texts"},
		{configs.Generate{Examples: 1}, 5, 1, "0 of 5 texts of data.public have at most 1 tokens"},
		{configs.Generate{Examples: 4}, 3, 200, "prompts quote 4"},
		{configs.Generate{Examples: 1, TemplateItem: "{i}."}, 5, 200, "template_item"},
	} {
		if _, err := NewPrompter(tok, c.g, configs.Data{MaxTokens: c.maxTokens}, publicTexts(c.texts), 100,
			10); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v with %d texts: the error is %v", c.g, c.texts, err)
		}
	}
	if _, err := NewPrompter(newPlainTokenizer(t), configs.Generate{}, configs.Data{MaxTokens: 200}, publicTexts(3),
		100, 10); err == nil || !strings.Contains(err.Error(), "end-of-text") {
		t.Errorf("a tokenizer without an end of text: %v", err)
	}
}

func newPlainTokenizer(t *testing.T) *tokenizer.Tokenizer {
	t.Helper()
	tok, err := tokenizer.TrainBPE(slices.Values([]string{"text"}), tokenizer.TrainOptions{VocabSize: 260})
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

// TestQuoting: a prompt quotes what it is given and begins the sample, which is read as a whole; texts that do not fit
// are left out.
func TestQuoting(t *testing.T) {
	for _, item := range []string{"", "Text {i}"} {
		p := newPrompter(t, configs.Generate{Examples: 1, TemplateItem: item}, 120, 20)
		x, err := p.Quoting("", []string{"the first one", "the second one"}, "a begin")
		if err != nil || !strings.HasSuffix(p.tok.Decode(x.IDs, true),
			"the second one"+map[bool]string{true: "\n", false: "\nText 3\n"}[item == ""]+"a begin") {
			t.Errorf("%q (%v)", p.tok.Decode(x.IDs, true), err)
		}
		if text, _ := p.Read(append(slices.Clone(x.Begun), p.tok.Encode("ning of a text")...),
			true); text != "a beginning of a text" {
			t.Errorf("the sample is %q", text)
		}
		many := slices.Repeat([]string{"quoted many times"}, 30)
		x, err = p.Quoting("", append(many, "the last one"), "a begin")
		if text := p.tok.Decode(x.IDs, true); err != nil || len(x.IDs) > 100 ||
			!strings.Contains(text, "the last one") || !strings.Contains(text, "quoted") {
			t.Errorf("%d tokens: %q (%v)", len(x.IDs), text, err)
		}
		if _, err := p.Quoting("", nil, strings.Repeat("no room ", 200)); err == nil {
			t.Error("a beginning of 400 words fits 100 tokens")
		}
		if cut := p.Cut(strings.Repeat("word ", 500)); cut == "" || len(p.tok.Encode(cut)) > p.maxTokens {
			t.Errorf("cut to %q", cut)
		}
		if cut := p.Cut(strings.Repeat("w", 5000)); cut != "" {
			t.Errorf("a long word is cut to %q", cut)
		}
	}
}

// TestLines: where samples have line breaks, those within a sample stay, and its completion is of the same text. Where
// each line is a text, a sample is a line in any case.
func TestLines(t *testing.T) {
	const drawn = "  * first item \n\n  * second item\n"
	for _, c := range []struct {
		item  string
		lines bool
		want  string
	}{
		{"### Passage {i}", true, "* first item\n\n  * second item"},
		{"### Passage {i}", false, "* first item * second item"},
		{"", true, "* first item * second item"},
	} {
		p := newPrompter(t, configs.Generate{Examples: 1, TemplateItem: c.item}, 400, 100)
		p.Lines = c.lines
		ids := p.tok.Encode(drawn + p.marker)
		text, completion := p.Read(ids, true)
		if text != c.want {
			t.Errorf("template item %q, lines %v: %q, want %q", c.item, c.lines, text, c.want)
		}
		if c.item != "" && p.tok.Decode(completion, true) != c.want {
			t.Errorf("template item %q, lines %v: the completion is %q", c.item, c.lines,
				p.tok.Decode(completion, true))
		}
		p.config.CutSamples, p.maxTokens = true, 20
		if text, _ = p.Read(ids, true); !strings.HasPrefix(c.want, text) || text == "" {
			t.Errorf("template item %q, lines %v: the cut text is %q", c.item, c.lines, text)
		}
	}
}
