package main

import (
	"encoding/json"
	"fmt"
	"html"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"popri/configs"
	"popri/internal/rundir"
	"popri/run/evaluation"
	"popri/study"
	"popri/testkit/testfile"
	"popri/testkit/testworld"
)

func TestAblate(t *testing.T) {
	w := testworld.Make(t)
	dir := filepath.Join(t.TempDir(), "grid")
	encoder := filepath.Join("..", "..", "testdata", "golden", "sentence", "bert-first")
	command := func(more ...string) []string {
		// The encoder has weights of its own, and so another length than the configuration says.
		return append([]string{"ablate", "--config", w.File, "--set", "scoring.dim=12", "--set",
			"scoring.encoder=" + encoder, "--set", "trainer.rounds=1", "--over", "dpo.rejected_rank=2,3", "--out", dir},
			more...)
	}

	// Every configuration is checked before a run starts, and all that is wrong is told at once.
	code, _, errs := popri(t, command("--over", "lora.rank=2,0,-1")...)
	if _, err := os.Stat(dir); code != exitUsage || err == nil || !strings.Contains(errs, "rank=0") ||
		!strings.Contains(errs, "rank=-1") {
		t.Fatalf("exit code %d, %v: %s", code, err, errs)
	}

	code, out, errs := popri(t, command("--seeds", "1", "--json")...)
	if code != 0 {
		t.Fatal(errs)
	}
	var one study.Ablation
	if err := json.Unmarshal([]byte(out), &one); err != nil {
		t.Fatal(err)
	}
	if code, _, errs := popri(t, "ablate", "--config", w.File, "--set", "trainer.rounds=1", "--over", "dpo.beta=0.3", "--out",
		dir, "--plan"); code != 0 || !strings.Contains(errs, "2 runs of earlier grids") {
		t.Errorf("a plan beside earlier runs: exit code %d, %s", code, errs)
	}
	// A second seed adds to what is there; the interrupted run continues.
	name := filepath.Base(one.Rows[1].Runs[0])
	testfile.Remove(t, filepath.Join(dir, name, rundir.Eval))
	ledger := filepath.Join(one.Rows[0].Runs[0], "ledger.jsonl")
	before := testfile.Read(t, ledger)
	code, out, errs = popri(t, command("--seeds", "2", "--json")...)
	if code != 0 {
		t.Fatal(errs)
	}
	if strings.Count(errs, "(done before)") != 1 {
		t.Errorf("one of four runs was done: %s", errs)
	}
	if after, err := os.ReadFile(ledger); err != nil || string(after) != string(before) {
		t.Errorf("%v: a run that was done was charged again", err)
	}
	var got study.Ablation
	if err := json.Unmarshal([]byte(out), &got); err != nil {
		t.Fatal(err)
	}
	b := testfile.Read(t, filepath.Join(dir, study.File))
	var stored study.Ablation
	if err := json.Unmarshal(b, &stored); err != nil || !reflect.DeepEqual(stored, got) {
		t.Errorf("%v: ablation.json and the printed object differ", err)
	}
	if len(got.Rows) != 2 || !reflect.DeepEqual(got.Seeds, []uint64{1, 2}) {
		t.Fatalf("%+v", got)
	}
	// All runs are on the same data: what they spend together is more than each, and stands in the table and on the
	// page. (With seeded noise the settings' first rounds give the very same releases, one for each seed.)
	if len(got.Composed) != 1 || got.Composed[0].Charges != 2 || len(got.Composed[0].Ledgers) != 4 ||
		got.Composed[0].Epsilon < 1.3*got.Rows[0].Epsilon.Mean {
		t.Errorf("together: %+v, each run %+v", got.Composed, got.Rows[0].Epsilon)
	}
	for i, row := range got.Rows {
		if len(row.Accuracy.Values) != 2 || row.Accuracy.SD == nil ||
			row.Accuracy.Values[0] != one.Rows[i].Accuracy.Values[0] || row.Base != (row.Values[0] == "3") {
			t.Errorf("row %d: %+v, with one seed %+v", i, row, one.Rows[i])
		}
		// What the rows have in common is equal, though it was computed once.
		if !reflect.DeepEqual(row.Private, got.Rows[0].Private) || !reflect.DeepEqual(row.Public, got.Rows[0].Public) {
			t.Errorf("row %d has other reference points", i)
		}
		for k, run := range row.Runs {
			e, err := evaluation.Read(run)
			page, _ := os.ReadFile(filepath.Join(run, rundir.Report)) // of the first run, too
			if err != nil || e.Result("popri").Accuracy != row.Accuracy.Values[k] ||
				!strings.Contains(string(page), "4 runs on the same private data, together: ε = ") {
				t.Errorf("%s: %v", run, err)
			}
		}
	}
	if found, err := filepath.Glob(filepath.Join(dir, "evaluations", "*.json")); err != nil || len(found) != 4+2*2 {
		t.Errorf("%v: %d fine-tunings are kept, want one of each run and two of each seed", err, len(found))
	}

	// A smaller grid in the folder has the price of the larger one, whose runs somebody has seen.
	code, out, errs = popri(t, command("--seeds", "1", "--json")...)
	var smaller struct {
		Composed []struct {
			Ledgers []int
			Epsilon float64
		}
	}
	if code != 0 || json.Unmarshal([]byte(out), &smaller) != nil || len(smaller.Composed) != 1 ||
		len(smaller.Composed[0].Ledgers) != 4 || smaller.Composed[0].Epsilon != got.Composed[0].Epsilon {
		t.Errorf("a smaller grid: exit code %d, %+v, want %+v: %s", code, smaller.Composed, got.Composed, errs)
	}
	// The table holds the object's figures; a repetition reads everything back.
	begun := time.Now()
	code, out, errs = popri(t, command("--seeds", "2")...)
	if code != 0 || strings.Count(errs, "(done before)") != 4 {
		t.Errorf("exit code %d: %s", code, errs)
	}
	t.Logf("read back in %v:\n%s", time.Since(begun), out)
	for _, row := range got.Rows {
		if want := strconv.FormatFloat(100*row.Accuracy.Mean, 'f', 2, 64) + " ± "; !strings.Contains(out, want) {
			t.Errorf("the table lacks %q:\n%s", want, out)
		}
	}
	if !strings.Contains(out, "4 runs on the same private data, together: ε = ") {
		t.Errorf("the table lacks what the runs spend together:\n%s", out)
	}
	// What is published of one of the runs says what all of them spent.
	published := filepath.Join(t.TempDir(), "published")
	code, _, errs = popri(t, "data", "push-ready", got.Rows[1].Runs[0], "--out", published, "--unprotected")
	card, err := os.ReadFile(filepath.Join(published, "README.md"))
	if code != 0 || err != nil || !strings.Contains(string(card), "4 runs on the same private data, together: ε = ") {
		t.Errorf("push-ready: exit code %d, %v, %s\n%s", code, err, errs, card)
	}
	page, err := os.ReadFile(filepath.Join(dir, rundir.Report))
	if err != nil || !strings.Contains(string(page), "dpo.rejected_rank") || !strings.Contains(string(page), "<svg") ||
		!strings.Contains(string(page), "4 runs on the same private data, together") ||
		!strings.Contains(string(page), "<code>popri ablate --config ") ||
		!strings.Contains(string(page), "--over dpo.rejected_rank=2,3 --seeds 2 --set scoring.dim=12") ||
		!strings.Contains(string(page), "--set trainer.rounds=1</code>") {
		t.Errorf("%v: the page lacks key or plot", err)
	}

	for _, c := range []struct {
		args []string
		want string
	}{
		{command("--set", "dpo.beta=0.2"), "dpo.beta"},
		{command("--seeds", "0"), "--seeds is 0"},
		{command("--eta", "2"), "--eta needs --adaptive"},
		{command("--adaptive"), "nothing to drop of 2 settings of 1 rounds"},
		{command("--adaptive", "--eta", "1"), "--eta is 1"},
		{command("--adaptive", "--on", "slurm"), "do not combine it with --on"},
		{command("--report-to", "wandb"), `"wandb" is no tracker`},
		{command("--over", "dpo.rejected_rank=2"), "twice"},
		{command("--over", "dpo.beta"), "dpo.beta"},
		{command("--over", "dpo.beta=1,1"), "twice"},
		{command("--over", "seed=1,2"), "--seeds"},
		{command("--over", "dpo.bta=1,2"), "dpo.bta"},
		{command("--over", "dpo.beta=x"), `"x"`},
		{[]string{"ablate", "--config", w.File, "--out", dir}, "--over"},
		{command("--instead", "dpo.beta=0.2"), "--instead"},
		{[]string{"ablate", "--config", w.File, "--out", dir, "--instead", "dpo.bta=1"}, "dpo.bta"},
		{[]string{"ablate", "--config", w.File, "--out", dir, "--instead", "dpo.beta=1 dpo.beta=2"}, "twice"},
		{[]string{"ablate", "--config", w.File, "--out", dir, "--instead", "seed=2"}, "--seeds"},
		{[]string{"ablate", "--config", w.File, "--out", dir, "--instead", "dpo.beta=-1"}, "dpo.beta"},
	} {
		if code, out, errs := popri(t, c.args...); code != exitUsage || out != "" || !strings.Contains(errs, c.want) {
			t.Errorf("%q: exit code %d, %q, %s", c.args, code, out, errs)
		}
	}
}

// A run that fails leaves the others; the table and the page name it, and the command fails.
func TestAblateFailedRun(t *testing.T) {
	w := testworld.Make(t)
	dir := filepath.Join(t.TempDir(), "grid")
	code, out, errs := popri(t, "ablate", "--config", w.File, "--set", "trainer.rounds=1", "--out", dir, "--json",
		"--report-to", "tensorboard", "--instead", "generate.top_p=1e-9", "--instead", "dpo.rejected_rank=3")
	if code != exitFailed || !strings.Contains(errs, "1 of 3 runs failed") ||
		!strings.Contains(errs, "no prompt gave a preference pair") {
		t.Fatalf("exit code %d: %s", code, errs)
	}
	var got study.Ablation
	if err := json.Unmarshal([]byte(out), &got); err != nil {
		t.Fatal(err)
	}
	if len(got.Rows) != 2 || len(got.Failed) != 1 || !strings.HasPrefix(got.Failed[0].Name, "generate.top_p=1e-9") {
		t.Errorf("%d rows, failed %+v", len(got.Rows), got.Failed)
	}
	if len(got.Composed) != 1 || len(got.Composed[0].Ledgers) != 3 {
		t.Errorf("the run that failed after its release does not count: %+v", got.Composed)
	}
	for _, row := range got.Rows { // each run is one there
		if files, err := filepath.Glob(filepath.Join(row.Runs[0], rundir.TensorBoard, "*")); err != nil ||
			len(files) != 1 {
			t.Errorf("%s has the event files %q (%v)", row.Runs[0], files, err)
		}
	}
	page, err := os.ReadFile(filepath.Join(dir, rundir.Report))
	if err != nil || !strings.Contains(string(page), "1 of 3 runs failed") ||
		!strings.Contains(string(page), "no prompt gave a preference pair") {
		t.Errorf("the page does not name the run: %v", err)
	}
}

// The configuration as it is and each change alone, with differences paired by seed on the page.
func TestAblateOneAtATime(t *testing.T) {
	w := testworld.Make(t)
	dir := filepath.Join(t.TempDir(), "changes")
	code, out, errs := popri(t, "ablate", "--config", w.File, "--set", "trainer.rounds=1", "--seeds", "2", "--out", dir,
		"--json", "--instead", "dpo.rejected_rank=2", "--instead", "dpo.loss=ipo dpo.beta=0.5")
	if code != 0 {
		t.Fatal(errs)
	}
	var got study.Ablation
	if err := json.Unmarshal([]byte(out), &got); err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"configured", "dpo.rejected_rank=2", "dpo.loss=ipo,dpo.beta=0.5"} {
		if row := got.Rows[i]; !reflect.DeepEqual(row.Values, []string{want}) || row.Base != (i == 0) ||
			len(row.Runs) != 2 {
			t.Errorf("row %d: %+v, want %s", i, row, want)
		}
	}
	c, err := configs.Load(configs.LoadOptions{File: filepath.Join(got.Rows[2].Runs[1], rundir.Config)})
	if err != nil || c.DPO.Loss != "ipo" || c.DPO.Beta != 0.5 || c.Seed != got.Seeds[1] {
		t.Errorf("the last run has %+v (%v)", c.DPO, err)
	}
	first, second := got.Rows[0].GapClosed.Values, got.Rows[1].GapClosed.Values
	want := fmt.Sprintf("%+.1f", 100*(second[0]-first[0]+second[1]-first[1])/2)
	page, err := os.ReadFile(filepath.Join(dir, rundir.Report))
	if text := strings.ReplaceAll(html.UnescapeString(string(page)), "−", "-"); err != nil ||
		!strings.Contains(text, ">"+want+" ± ") {
		t.Errorf("%v: the page lacks the difference %s", err, want)
	}
}

// A plan of runs on the user's own files says what they cost, and writes and trains nothing. Flags that name the data
// exclude settings that do.
func TestAblatePlanOnOwnFiles(t *testing.T) {
	w := testworld.Make(t)
	cache := t.TempDir()
	t.Setenv("POPRI_CACHE", cache)
	dir := filepath.Join(t.TempDir(), "planned")
	ours := []string{"ablate", "--out", dir, "--private", w.Private, "--public", w.Public, "--over", "dpo.beta=0.05,0.1"}
	code, out, errs := popri(t, append(ours, "--seeds", "2", "--plan", "--json")...)
	var got struct {
		Runs []struct {
			Name string `json:"name"`
		} `json:"runs"`
		Composed []struct{ Charges int } `json:"composed"`
	}
	if err := json.Unmarshal([]byte(out), &got); code != 0 || err != nil {
		t.Fatal(code, errs, err)
	}
	if len(got.Runs) != 4 || !strings.HasPrefix(got.Runs[2].Name, "dpo.beta=0.1") || got.Composed[0].Charges != 2 {
		t.Errorf("planned %+v, want two values, two seeds, and a release for each seed", got)
	}
	entries, err := os.ReadDir(cache)
	if err != nil || len(entries) > 0 || rundir.Exists(dir) {
		t.Errorf("a plan wrote %v (%v)", entries, err)
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{append(ours, "--config", w.File), "do not combine it with --private"},
		{append(ours, "--resume"), "do not combine it with --over"},
		{[]string{"ablate", "--resume", "--out", dir, "--world", "speeches"}, "do not combine it with --world"},
		{[]string{"run", "--resume", "--out", dir, "--private", w.Private}, "do not combine it with --private"},
		{[]string{"run", "--out", dir, "--private", w.Private}, "needs --public"},
		{[]string{"run", "--out", dir, "--world", "mars"}, "there are godoc"},
	} {
		if code, _, errs := popri(t, c.args...); code != exitUsage || !strings.Contains(errs, c.want) {
			t.Errorf("%v: exit code %d, %s", c.args, code, errs)
		}
	}
}
