package speeches

import (
	"os"
	"testing"

	"popri/datasets"
	"popri/datasets/clients"
	"popri/internal/cachedir"
)

// TestFiles: the files have what README.md says, no public text is a client's, and a file that was changed is written
// again.
func TestFiles(t *testing.T) {
	t.Setenv(cachedir.Variable, t.TempDir())
	clientFile, publicFile, err := Files()
	if err != nil {
		t.Fatal(err)
	}
	p, err := clients.Read(clientFile)
	if err != nil {
		t.Fatal(err)
	}
	for split, want := range map[clients.Split][2]int{clients.Train: {1321, 6043}, clients.Validation: {446, 1946},
		clients.Test: {576, 2835}} {
		list := p.Split(split)
		if got := [2]int{len(list), len(clients.Texts(list))}; got != want {
			t.Errorf("%s: %d clients and texts, want %d", split, got, want)
		}
	}
	texts, err := datasets.ReadPublic(publicFile)
	if err != nil || len(texts) != 27054 {
		t.Fatalf("%d public texts (%v)", len(texts), err)
	}
	if o := p.Overlap(datasets.Strings(texts), 8); o.Total() > 0 {
		t.Errorf("public texts are clients' texts: %s", o)
	}
	if err := os.Truncate(publicFile, 10); err != nil {
		t.Fatal(err)
	}
	if _, again, err := Files(); err != nil || again != publicFile {
		t.Fatalf("%s (%v), before %s", again, err, publicFile)
	}
	if texts, err := datasets.ReadPublic(publicFile); err != nil || len(texts) != 27054 {
		t.Errorf("after a file was cut: %d public texts (%v)", len(texts), err)
	}
}
