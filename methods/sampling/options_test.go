package sampling

import (
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"popri/configs"
	"popri/datasets"
)

// Public texts that are too long are dropped or cut at a word, as the configuration says, and counted.
func TestLongTexts(t *testing.T) {
	tok := newTokenizer(t, "text goes on and on")
	count := func(text string) int { return len(tok.Encode(text)) }
	long := strings.Repeat("text goes on ", 40)
	unbroken := strings.Repeat("x", 100)
	public := []datasets.Text{{Text: "text goes on"}, {Text: long}, {Text: "on and on"}, {Text: unbroken}}
	for _, c := range []struct {
		how  string
		want PublicTexts
	}{{"drop", PublicTexts{Used: 2, Dropped: 2}}, {"cut", PublicTexts{Used: 3, Cut: 1, Dropped: 1}}} {
		p, err := NewPrompter(tok, configs.Generate{Examples: 1}, configs.Data{MaxTokens: 20, LongTexts: c.how}, public,
			200, 10)
		if err != nil || p.Public != c.want {
			t.Errorf("%s: %v, %v, want %+v", c.how, p, err, c.want)
			continue
		}
		for i, text := range p.texts {
			if count(text) > 20 || !slices.Equal(p.ids[i], tok.Encode(text)) {
				t.Errorf("%s: %q has %d tokens", c.how, text, count(text))
			}
		}
		if fit := p.Fitting(public); len(fit) != c.want.Used || fit[1].Text != p.texts[1] {
			t.Errorf("%s: selected texts are quoted as %v, others as %q", c.how, fit, p.texts)
		}
		if c.how == "cut" {
			cut := p.texts[1]
			if next := cut + " " + strings.Fields(long)[len(strings.Fields(cut))]; !strings.HasPrefix(long, cut+" ") ||
				count(next) <= 20 {
				t.Errorf("%q is not as many words as fit", cut)
			}
		}
	}
}

func TestFewTextsAreWarnedOf(t *testing.T) {
	for _, c := range []struct {
		texts PublicTexts
		want  string
	}{{PublicTexts{Used: 107, Dropped: 26947}, "107 of 27054"}, {PublicTexts{Used: 50, Dropped: 50},
		""}, {PublicTexts{Used: 49, Dropped: 51}, "49 of 100"}, {PublicTexts{Used: 9, Cut: 9}, ""}} {
		if w := c.texts.Warning(); (w == "") != (c.want == "") || !strings.Contains(w, c.want) {
			t.Errorf("%+v: the warning is %q", c.texts, w)
		}
	}
	if s := (PublicTexts{Used: 5, Cut: 2, Dropped: 3}).String(); !strings.Contains(s, "5 used, 2 of them cut") ||
		!strings.Contains(s, "3 longer ones dropped") {
		t.Error(s)
	}
}

func TestDistinctExamples(t *testing.T) {
	tok := newTokenizer(t, "text goes on")
	public := []datasets.Text{{Text: "a text"}, {Text: "a text"}, {Text: "a text"}, {Text: "on"}, {Text: "goes"}}
	repeats := func(item string) (n int) {
		p, err := NewPrompter(tok, configs.Generate{Examples: 3, TemplateItem: item}, configs.Data{MaxTokens: 20},
			public, 200, 10)
		if err != nil {
			t.Fatal(err)
		}
		prompts, err := p.Draw(rand.New(rand.NewPCG(1, 2)), 50)
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range prompts {
			var lines []string
			for line := range strings.Lines(x.Text) {
				if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "Item") {
					lines = append(lines, line)
				}
			}
			slices.Sort(lines)
			if len(slices.Compact(lines)) < 3 {
				n++
			}
		}
		return n
	}
	if n := repeats("Item {i}"); n != 0 {
		t.Errorf("%d prompts quote a text twice", n)
	}
	if n := repeats(""); n == 0 {
		t.Error("texts are drawn without replacement where they need not differ")
	}
	_, err := NewPrompter(tok, configs.Generate{Examples: 4, TemplateItem: "Item {i}"}, configs.Data{MaxTokens: 20},
		public, 200, 10)
	if !errors.Is(err, ErrTooFewPrompts) || !strings.Contains(err.Error(), "3 of 5 texts") {
		t.Errorf("three texts for prompts of four: %v", err)
	}
}

// Texts are separated as in the published code.
func TestTemplateSeparator(t *testing.T) {
	g := configs.Generate{Examples: 2, TemplateHeader: "List:", TemplateItem: "Original Text Sample {i}"}
	p, err := NewPrompter(newTokenizer(t, "Original Text Sample"), g, configs.Data{MaxTokens: 200},
		[]datasets.Text{{Text: "one"}, {Text: "two"}}, 400, 10)
	if err != nil {
		t.Fatal(err)
	}
	prompts, err := p.Draw(rand.New(rand.NewPCG(1, 2)), 1)
	want := "List:\nOriginal Text Sample 1\none\nOriginal Text Sample 2\ntwo\nOriginal Text Sample 3\n"
	if err != nil || prompts[0].Text != want || p.tok.Decode(prompts[0].IDs, false) != want {
		t.Errorf("%v, %q, want %q", err, prompts[0].Text, want)
	}
}

// Samples are cut to data.max_tokens, and end, as the configuration says.
func TestCutSamplesAndEnds(t *testing.T) {
	tok := newTokenizer(t, "text goes on and on", "Original Text Sample")
	for _, item := range []string{"", "Original Text Sample {i}"} {
		for _, cut := range []bool{false, true} {
			g := configs.Generate{Examples: 1, TemplateItem: item, CutSamples: cut}
			p, err := NewPrompter(tok, g, configs.Data{MaxTokens: 8}, []datasets.Text{{Text: "on"}}, 400, 30)
			if err != nil {
				t.Fatal(err)
			}
			mark := p.newline
			if item != "" {
				mark = []int32{p.separator}
			}
			for _, text := range []string{"on and", "text goes on, é日本語 and on", "日本語日本語日本語",
				strings.Repeat("xyz ", 30), ""} {
				for _, stopped := range []bool{false, true} {
					ids := tok.Encode(text)
					got, completion := p.Read(ids, stopped)
					ends := len(completion) >= len(mark) && slices.Equal(completion[len(completion)-len(mark):], mark)
					shortened := cut && len(tok.Encode(strings.Join(strings.Fields(text), " "))) > 8
					wantEnd := cut || stopped && !shortened && len(ids)+len(mark) <= 30
					body := completion
					if ends {
						body = body[:len(body)-len(mark)]
					}
					where := []any{item, cut, text, stopped, completion}
					if ends != wantEnd || len(completion) > 30 {
						t.Errorf("%v: an end %v, want %v", where, ends, wantEnd)
					}
					if cut && (len(body) > 8 || strings.Contains(got, "\uFFFD") ||
						!strings.HasPrefix(strings.Join(strings.Fields(text), " "), got) ||
						strings.TrimSpace(tok.Decode(body, true)) != got) {
						t.Errorf("%v: cut to %q of %d tokens", where, got, len(body))
					}
					if !cut && got != strings.Join(strings.Fields(text), " ") {
						t.Errorf("%v: reads %q", where, got)
					}
				}
			}
		}
	}
}
