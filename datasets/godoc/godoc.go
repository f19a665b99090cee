package godoc

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"popri/datasets"
	"popri/datasets/clients"
)

// textsPerClient is the largest number of successive texts of one file that a client has.
const textsPerClient = 4

// Shares of the files of D, by hash of the path: up to trainShare train, and so on; the rest is public.
const (
	trainShare      = 0.55
	validationShare = 0.62
	testShare       = 0.75
)

// Corpus is both halves of the embedded default.
type Corpus struct {
	Public    datasets.Public
	Private   *clients.Population
	GoVersion string // the release whose source was read, such as "go1.26.8", which decides every text and split
	Root      string // where that source is
}

// Load reads the corpus from goroot, or if that is empty, from what was installed with the program ([shipped]) or the
// toolchain that built it or that the go command names. It takes a few seconds and is deterministic for a Go release. A
// missing tree gives an error that is [errNoSource].
func Load(goroot string) (*Corpus, error) {
	if path := shippedPath(); goroot == "" {
		if s, err := readShipped(path); !errors.Is(err, fs.ErrNotExist) {
			return s.corpus(path, err)
		}
	}
	root, err := findRoot(goroot)
	if err != nil {
		return nil, err
	}
	files, err := readTree(filepath.Join(root, "src"))
	return shipped{version(root), files}.corpus(root, err)
}

// corpus splits the texts that stand at root, unless reading them failed.
func (s shipped) corpus(root string, err error) (*Corpus, error) {
	if err != nil {
		return nil, err
	}
	c := split(s.Files)
	c.GoVersion, c.Root = s.Version, root
	c.Public.Name = "Go comments (" + c.GoVersion + ")"
	c.Private.Name = "Comments of Go's compiler, linker and assembler (" + c.GoVersion + ")"
	if len(c.Private.Clients) == 0 || len(c.Public.Prompts) == 0 {
		return nil, fmt.Errorf("%w: %s holds no comments of use (%d clients, %d prompts)", errNoSource, root,
			len(c.Private.Clients), len(c.Public.Prompts))
	}
	return c, nil
}

// WithoutDomain is the public half without the public files of D: neither prompts nor the generator's corpus hold text
// of the clients' domain. InDomain stays, for comparison.
func (c *Corpus) WithoutDomain() datasets.Public {
	p := c.Public
	p.Name += " without the clients' domain"
	p.Generator = slices.DeleteFunc(slices.Clone(p.Generator), func(t datasets.Text) bool { return inDomain(t.Source) })
	return p
}

// split assigns every file to its part and removes repetitions: near copies within a part, and across parts everything
// that shares a run of words with a stricter part, in the order train, validation, test, public.
func split(files []file) *Corpus {
	parts := map[clients.Split][]file{}
	for _, f := range files {
		s := assign(f.Path)
		parts[s] = append(parts[s], f)
	}
	border := newBorder()
	population := &clients.Population{
		Unit: fmt.Sprintf("a client is at most %d successive comments of one source file of "+
			"cmd/{compile,link,internal,asm}; one file makes several clients, so what is protected is such a stretch, "+
			"not its author", textsPerClient)}
	for _, s := range clients.Splits {
		parts[s] = dedupe(parts[s], border.Shares)
		for _, f := range parts[s] {
			for _, t := range f.Texts {
				border.Add(t)
			}
			population.Clients = append(population.Clients, cut(f, s)...)
		}
	}
	public := dedupe(parts[""], border.Shares)
	c := &Corpus{Private: population}
	c.Public.Generator = toTexts(public)
	for _, t := range c.Public.Generator {
		switch {
		case inDomain(t.Source):
			c.Public.InDomain = append(c.Public.InDomain, t)
		case !under(t.Source, "cmd", "runtime", "go", "internal", "reflect", "debug", "simd"):
			c.Public.Prompts = append(c.Public.Prompts, t)
		}
	}
	return c
}

// dedupe drops texts that a stricter part forbids, and texts that begin like an earlier one of the same part.
func dedupe(files []file, forbidden func(string) bool) []file {
	seen := newBorder()
	var out []file
	for _, f := range files {
		var kept []string
		for _, t := range f.Texts {
			if forbidden(t) || seen.Repeats(t) {
				continue
			}
			seen.Add(t)
			kept = append(kept, t)
		}
		if len(kept) > 0 {
			out = append(out, file{f.Path, kept})
		}
	}
	return out
}

// cut makes clients of a file's texts, of nearly equal size.
func cut(f file, s clients.Split) []clients.Client {
	n := (len(f.Texts) + textsPerClient - 1) / textsPerClient
	out := make([]clients.Client, n)
	for i := range out {
		out[i] = clients.Client{
			ID:    fmt.Sprintf("%s#%03d", f.Path, i),
			Split: s,
			Label: path.Dir(f.Path),
			Texts: f.Texts[i*len(f.Texts)/n : (i+1)*len(f.Texts)/n],
		}
	}
	return out
}

// assign returns a file's split, or "" if the file is public.
func assign(p string) clients.Split {
	if !inDomain(p) {
		return ""
	}
	sum := sha256.Sum256([]byte(p))
	switch u := float64(binary.BigEndian.Uint64(sum[:])>>11) / (1 << 53); {
	case u < trainShare:
		return clients.Train
	case u < validationShare:
		return clients.Validation
	case u < testShare:
		return clients.Test
	}
	return ""
}

func inDomain(p string) bool { return under(p, "cmd/compile", "cmd/link", "cmd/internal", "cmd/asm") }

func under(p string, dirs ...string) bool {
	return slices.ContainsFunc(dirs, func(d string) bool { return strings.HasPrefix(p, d+"/") })
}
