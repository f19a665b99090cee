package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"popri/experiment"
	"popri/internal/testworld"
)

// TestRunVerbs leads one small run through run, eval, report and compare.
func TestRunVerbs(t *testing.T) {
	w, err := testworld.New(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "run")
	code, out, errs := popri(t, "run", "--config", w.File, "--out", dir, "--json")
	if code != 0 {
		t.Fatal(errs)
	}
	if v := decode(t, out); v["rounds"] != 2.0 || v["clients"] != 30.0 || v["run"] != dir {
		t.Errorf("run gives %v", v)
	}
	if code, _, errs := popri(t, "run", "--config", w.File, "--out", dir); code != exitUsage || !strings.Contains(errs, "--resume") {
		t.Errorf("a second run in the same folder: exit code %d, %s", code, errs)
	}

	code, out, errs = popri(t, "eval", "--run", dir, "--json", "--quiet")
	if code != 0 {
		t.Fatal(errs)
	}
	var got experiment.Evaluation
	if err := json.Unmarshal([]byte(out), &got); err != nil {
		t.Fatal(err)
	}
	stored, err := experiment.ReadEvaluation(dir)
	if err != nil || !reflect.DeepEqual(stored, &got) {
		t.Errorf("%v: eval.json holds %+v, printed is %+v", err, stored, got)
	}
	for _, key := range []string{"public", "untuned", "popri", "public_all", "private"} {
		if r := got.Result(key); r == nil || r.Accuracy <= 0 || r.Accuracy >= 1 || r.AccuracyCI == nil || r.AccuracyCI[0] > r.Accuracy || r.AccuracyCI[1] < r.Accuracy {
			t.Errorf("%s: %+v", key, r)
		}
	}
	_, out, _ = popri(t, "eval", "--run", dir, "--quiet")
	for _, r := range got.Results {
		if !strings.Contains(out, r.Name) {
			t.Errorf("the table lacks %q:\n%s", r.Name, out)
		}
	}

	// The run's synthetic set as a file of its own gets the figures that it has in the run.
	synthetic := filepath.Join(dir, "synthetic.parquet")
	code, out, errs = popri(t, "eval", "--config", w.File, "--synthetic", synthetic, "--private", w.Private, "--model", w.Device, "--json", "--quiet")
	if code != 0 {
		t.Fatal(errs)
	}
	var judged experiment.Evaluation
	if err := json.Unmarshal([]byte(out), &judged); err != nil {
		t.Fatal(err)
	}
	if a, b := judged.Result(experiment.KeyText), got.Result("popri"); a == nil || a.Accuracy != b.Accuracy || !reflect.DeepEqual(a.GapClosedCI, b.GapClosedCI) || len(judged.Results) != 3 {
		t.Errorf("judged by itself the set has %+v, in the run %+v", a, b)
	}

	page := filepath.Join(dir, "report.html")
	if err := os.Remove(page); err != nil {
		t.Fatal(err)
	}
	code, out, errs = popri(t, "report", dir)
	if b, err := os.ReadFile(page); code != 0 || err != nil || strings.TrimSpace(out) != page || !strings.Contains(string(b), "POPri") {
		t.Errorf("report: exit code %d, %v, %q, %s", code, err, out, errs)
	}
	compared := filepath.Join(t.TempDir(), "compare.html")
	code, out, errs = popri(t, "compare", dir, dir, "--out", compared, "--json")
	if _, err := os.Stat(compared); code != 0 || err != nil || decode(t, out)["report"] != compared {
		t.Errorf("compare: exit code %d, %v, %q, %s", code, err, out, errs)
	}
	for _, c := range []struct{ args, want string }{
		{"report " + filepath.Join(dir, "rounds"), "no run"},
		{"compare " + dir, "--out"},
		{"eval", "--synthetic"},
		{"eval --run " + dir + " --synthetic x", "either"},
		{"eval --run " + dir + " --set seed=2", "--set"},
		{"eval --run " + w.Dir, "no run"},
		{"eval --synthetic " + filepath.Join(dir, "nowhere.txt") + " --private " + w.Private + " --model " + w.Device, "nowhere.txt"},
		{"eval --synthetic " + w.Public + " --private " + w.Private + " --model nowhere", "nowhere"},
	} {
		if code, out, errs := popri(t, strings.Fields(c.args)...); code != exitUsage || out != "" || !strings.Contains(errs, c.want) {
			t.Errorf("%s: exit code %d, %q, %s", c.args, code, out, errs)
		}
	}
}
