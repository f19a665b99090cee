package rundir

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"popri/testkit/testfile"
)

// TestFind: the first row that fits decides, folders have what is in them, and other files belong to nobody.
func TestFind(t *testing.T) {
	for name, want := range map[string]Reader{
		Config: Everybody, "rounds/0001/release.bin": Everybody, "rounds/0001/release-7.bin": Everybody,
		"rounds/0001/release.pending": Operator, "rounds/0012/metrics.json": Evaluated, "rounds/0012/kinds.json": Everybody,
		"rounds/0001/adapter/adapter_model.safetensors": Everybody, "small/model.safetensors": Everybody, "small/README.md": Evaluated,
		"for-the-data-owner/judge.json": Owner, "unsafe_diagnostics/0001.json": Owner, Events: Operator,
		"notes.txt": "", "rounds/0001/notes.txt": "", "rounds": "", "synthetic.parquet.bak": "", ".tmp-x": "",
		"rounds/0001/deeper/x.json": "", "protected-eval/rounds/0001/release.pending": Operator,
		"protected-eval/rounds/0001/release.bin": Everybody,
	} {
		if f, ok := Find(name); f.Reader != want || ok != (want != "") {
			t.Errorf("%s: %q, %v; want %q", name, f.Reader, ok, want)
		}
	}
}

// TestPublish copies the files of some readers, byte by byte, and says why the others stay.
func TestPublish(t *testing.T) {
	dir, to := t.TempDir(), filepath.Join(t.TempDir(), "a", "public")
	for _, name := range []string{Config, "rounds/0001/release.bin", Eval, Events, "for-the-data-owner/x", "mine.txt"} {
		testfile.Write(t, filepath.Join(dir, name), name)
	}
	published, kept, err := Publish(dir, to, Everybody)
	if want := []string{Config, "rounds/0001/release.bin"}; err != nil || !slices.Equal(published, want) {
		t.Fatalf("published %v (%v), want %v", published, err, want)
	}
	for _, name := range published {
		if b, err := os.ReadFile(filepath.Join(to, name)); err != nil || string(b) != name {
			t.Errorf("%s: %q (%v)", name, b, err)
		}
	}
	for _, want := range []string{"eval.json it is for everybody, if", "events.jsonl it is for the operator",
		"for-the-data-owner/x it is for the owner of the data", "mine.txt popri did not make it"} {
		if !slices.ContainsFunc(kept, func(k Kept) bool { return strings.HasPrefix(k.Path+" "+k.Why, want) }) {
			t.Errorf("kept %v: lacks %s", kept, want)
		}
	}
	if found, _, err := Split(to, Everybody, Evaluated, Operator, Owner); err != nil || len(found) != 2 {
		t.Errorf("the copy has %v (%v)", found, err)
	}
	if _, _, err := Publish(dir, to, Everybody); err == nil {
		t.Error("a folder that is there was replaced")
	}
}
