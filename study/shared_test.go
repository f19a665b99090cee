package study

import (
	"bytes"
	"path/filepath"
	"testing"

	"popri/fedsim/release"
	"popri/internal/rundir"
	"popri/run/auditing"
	"popri/study/cost"
	"popri/study/grid"
	"popri/testkit/testfile"
	"popri/testkit/testworld"
)

// Runs that ask the clients the same read one release, which counts once; one with another question, and all with
// AskEach, ask for themselves. The plan says beforehand what is spent.
func TestOneReleaseForAll(t *testing.T) {
	w := askingOnce(t)
	var changes []grid.Change
	for _, set := range []string{"dpo.beta=0.05", "method=public_selection", "scoring.dim=8"} {
		v, err := grid.Parse(nil, []string{set}, 1)
		if err != nil {
			t.Fatal(err)
		}
		changes = append(changes, v.Changes...)
	}
	axes, cells, err := grid.OneAtATime(w.Config, changes, 1)
	if err != nil {
		t.Fatal(err)
	}
	content := func(dir string, c grid.Cell) []byte {
		t.Helper()
		return testfile.Read(t, filepath.Join(rundir.Round(filepath.Join(dir, c.Name), 1), release.File))
	}
	for _, each := range []bool{false, true} {
		dir := t.TempDir()
		a, err := Ablate(t.Context(), axes, cells, Options{Dir: dir, AskEach: each})
		if err != nil || len(a.Failed) > 0 {
			t.Fatal(err, a.Failed)
		}
		planned, _, err := cost.Epsilon(cells, nil, !each)
		if err != nil {
			t.Fatal(err)
		}
		want := 2 // one for three runs, one for the run with another encoder
		if each {
			want = 4
		}
		if got := a.Composed[0]; got.Charges != want || planned[0].Charges != want || got.Epsilon != planned[0].Epsilon {
			t.Errorf("AskEach %v: %d releases, ε = %g, planned %d and %g; want %d releases", each, got.Charges, got.Epsilon,
				planned[0].Charges, planned[0].Epsilon, want)
		}
		first := content(dir, cells[0])
		for i, c := range cells[1:] {
			if same := bytes.Equal(first, content(dir, c)); same != (!each && i < 2) {
				t.Errorf("AskEach %v: %s has the release of the first run: %v", each, c.Name, same)
			}
		}
		var runs []string
		for _, c := range cells {
			runs = append(runs, filepath.Join(dir, c.Name))
		}
		audited, err := auditing.Runs(runs, auditing.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if err := audited.Verdict(); err != nil {
			t.Errorf("AskEach %v: %v", each, err)
		}
	}
}

// askingOnce is a world of one round whose clients are asked once, with noise that no seed repeats.
func askingOnce(t *testing.T) *testworld.World {
	t.Helper()
	w := testworld.Make(t)
	testworld.AskOnce(&w.Config)
	w.Config.Trainer.Rounds, w.Config.Privacy.InsecureSeededNoise = 1, false
	return w
}
