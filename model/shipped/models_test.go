package shipped

import (
	"os"
	"path/filepath"
	"testing"

	"popri/datasets/godoc"
	"popri/model/safetensors"
)

// The weights' provenance names the public text that they were trained on by its hash. That the public text holds
// nothing of the clients is tested in datasets/godoc; here, that it is that text.
func TestWeightsWereTrainedOnThePublicPartAlone(t *testing.T) {
	corpus, err := godoc.Load("")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{Generator, Device} {
		p, err := ReadProvenance(name)
		if err != nil {
			t.Fatal(err)
		}
		if p.Command == "" || p.Commit == "" || len(p.CorpusHash) != 64 {
			t.Errorf("%s: the provenance is not complete: %+v", name, p)
		}
		if p.GoVersion == corpus.GoVersion && p.CorpusHash != corpus.Public.Hash() {
			t.Errorf("%s was trained on text with hash %s, the public part of %s has %s", name, p.CorpusHash,
				corpus.GoVersion, corpus.Public.Hash())
		}
		if p.GoVersion != corpus.GoVersion {
			t.Logf("%s was trained on %s, this is %s: runs warn of it", name, p.GoVersion, corpus.GoVersion)
		}
	}
}

func TestDirUnpacksAndRepairs(t *testing.T) {
	t.Setenv("POPRI_CACHE", t.TempDir())
	dir, err := Dir(Device)
	if err != nil {
		t.Fatal(err)
	}
	weights := filepath.Join(dir, "model.safetensors")
	if err := os.Truncate(weights, 100); err != nil {
		t.Fatal(err)
	}
	again, err := Dir(Device)
	if err != nil || again != dir {
		t.Fatalf("second call: %s, %v", again, err)
	}
	f, err := safetensors.Open(weights)
	if err != nil {
		t.Fatalf("a damaged file was not unpacked again: %v", err)
	}
	f.Close()
	if _, err := Dir("other"); err == nil {
		t.Error("a model that does not exist has a folder")
	}
}
