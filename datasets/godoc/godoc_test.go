package godoc

import (
	"errors"
	"strings"
	"sync"
	"testing"

	"popri/datasets"
	"popri/datasets/clients"
)

var load = sync.OnceValues(func() (*Corpus, error) { return Load("") })

func corpus(t *testing.T) *Corpus {
	t.Helper()
	c, err := load()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestFigures(t *testing.T) {
	c := corpus(t)
	t.Logf("%s, unit: %s", c.GoVersion, c.Private.Unit)
	for _, s := range clients.Splits {
		t.Logf("%-10s %v", s, clients.Count(c.Private.Split(s)))
	}
	for _, p := range []struct {
		name  string
		texts []datasets.Text
	}{{"generator", c.Public.Generator}, {"prompts", c.Public.Prompts}, {"in-domain", c.Public.InDomain}} {
		t.Logf("%-10s %d texts, %d words", p.name, len(p.texts), datasets.Words(p.texts))
	}
	if n := len(c.Private.Split(clients.Train)); n < 1000 {
		t.Errorf("%d train clients: too few to hide in", n)
	}
}

func TestTextsAreSingleLinesOfProse(t *testing.T) {
	c := corpus(t)
	for _, text := range append(clients.Texts(c.Private.Clients), datasets.Strings(c.Public.Generator)...) {
		words := strings.Fields(text)
		if text != strings.Join(words, " ") || len(words) < minWords || len(words) > maxWords {
			t.Fatalf("not a single-spaced line of %d to %d words: %q", minWords, maxWords, text)
		}
		if unwanted(text) {
			t.Fatalf("licence or build line: %q", text)
		}
	}
}

func TestSplitsHoldDifferentFiles(t *testing.T) {
	c := corpus(t)
	split := map[string]clients.Split{}
	ids := map[string]bool{}
	for _, client := range c.Private.Clients {
		if ids[client.ID] {
			t.Fatalf("client %s twice", client.ID)
		}
		ids[client.ID] = true
		if n := len(client.Texts); n < 1 || n > textsPerClient {
			t.Fatalf("client %s has %d texts", client.ID, n)
		}
		name, _, _ := strings.Cut(client.ID, "#")
		if old, ok := split[name]; ok && old != client.Split {
			t.Fatalf("%s is in %s and %s", name, old, client.Split)
		}
		split[name] = client.Split
	}
	for _, text := range c.Public.Generator {
		if s, ok := split[text.Source]; ok {
			t.Fatalf("%s is public and in %s", text.Source, s)
		}
	}
}

// The check shares nothing with Border but the lengths: it compares joined words in plain sets of strings.
func TestNothingPrivateIsPublic(t *testing.T) {
	c := corpus(t)
	private := map[string]clients.Split{}
	runs := func(text string, each func(string)) {
		words := normalise(text)
		for i := 0; i == 0 || i+runWords <= len(words); i++ {
			each(strings.Join(words[i:min(len(words), i+runWords)], " "))
		}
		each("^" + strings.Join(words[:min(len(words), prefixWords)], " "))
	}
	for _, s := range clients.Splits {
		for _, text := range clients.Texts(c.Private.Split(s)) {
			runs(text, func(run string) {
				if other, ok := private[run]; ok && other != s {
					t.Errorf("%q is in %s and %s", run, other, s)
				}
			})
		}
		for _, text := range clients.Texts(c.Private.Split(s)) {
			runs(text, func(run string) { private[run] = s })
		}
	}
	for _, part := range [][]datasets.Text{c.Public.Generator, c.Public.Prompts, c.Public.InDomain} {
		for _, text := range part {
			runs(text.Text, func(run string) {
				if s, ok := private[run]; ok {
					t.Errorf("%s: %q is public and in %s", text.Source, run, s)
				}
			})
		}
	}
}

func TestLoadIsDeterministic(t *testing.T) {
	a := corpus(t)
	b, err := Load(a.Root)
	if err != nil {
		t.Fatal(err)
	}
	if a.Public.Hash() != b.Public.Hash() || a.Private.Tag(nil) != b.Private.Tag(nil) {
		t.Errorf("two readings differ: public %s %s, private %s %s", a.Public.Hash(), b.Public.Hash(),
			a.Private.Tag(nil), b.Private.Tag(nil))
	}
}

func TestLoadWithoutSource(t *testing.T) {
	dir := t.TempDir()
	if _, err := Load(dir); !errors.Is(err, errNoSource) || !strings.Contains(err.Error(), dir) {
		t.Errorf("Load(%s): %v", dir, err)
	}
}

func TestBorder(t *testing.T) {
	b := newBorder()
	b.Add("The quick brown fox jumps over the lazy dog, and then it sleeps until the morning comes.")
	for _, c := range []struct {
		text            string
		repeats, shares bool
	}{
		{"the QUICK brown fox\njumps over the lazy cat", true, true},
		{"He saw that the fox jumps over the lazy dog and then it sleeps until the evening", false, true},
		{"A fox jumps over the lazy dog, then sleeps until the morning comes.", false, false},
		{"the quick brown", false, false},
	} {
		if got := b.Repeats(c.text); got != c.repeats {
			t.Errorf("Repeats(%q) = %v", c.text, got)
		}
		if got := b.Shares(c.text); got != c.shares {
			t.Errorf("Shares(%q) = %v", c.text, got)
		}
	}
}
