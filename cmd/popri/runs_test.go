package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"popri/internal/rundir"
	"popri/run/evaluation"
	"popri/testkit/testfile"
	"popri/testkit/testworld"
)

// TestAuditVerbs audits a small run and one that continues its ledger, with cohorts drawn by Poisson sampling.
func TestAuditVerbs(t *testing.T) {
	w := testworld.Make(t)
	first, second := filepath.Join(t.TempDir(), "first"), filepath.Join(t.TempDir(), "second")
	if code, _, errs := popri(t, "run", "--config", w.File, "--set", "trainer.rounds=2", "--out", first,
		"--quiet"); code != 0 {
		t.Fatal(errs)
	}
	code, out, errs := popri(t, "account", "audit", first, "--trials", "400", "--confidence", "0.9999999", "--json")
	v := decode(t, out)
	if code != 0 || v["sound"] != true || v["charges"] != 2.0 || v["releases"] != 2.0 || v["decides"] != "exact" {
		t.Errorf("exit code %d, %v, %s", code, v, errs)
	}
	game := v["canary"].(map[string]any)
	if claimed := number(t, game, "claimed"); number(t, game, "gaussian_bound") > claimed ||
		claimed > v["budget"].(float64) {
		t.Errorf("canary: %v", game)
	}
	if !strings.Contains(out, "insecure_seeded_noise") { // the tests' runs are seeded, and every report says so
		t.Errorf("the audit does not tell of seeded noise: %s", out)
	}
	for _, broken := range []string{"--noise-factor=0.3", "--skip-clip"} {
		code, out, _ := popri(t, "account", "audit", first, "--trials", "2000", "--confidence", "0.9999999", "--json",
			broken)
		if v := decode(t, out); code != exitFailed || v["sound"] != false ||
			!strings.Contains(out, "does not do what it says") {
			t.Errorf("%s: exit code %d, %v", broken, code, v)
		}
	}

	// The noise is measured with the run's encoder; the head is an anchor; two runs on the same data are composed.
	noise := v["noise"].(map[string]any)
	if pooled, ok := noise["pooled"].(map[string]any); !ok || number(t, pooled, "degrees_of_freedom") < 50 ||
		len(noise["releases"].([]any)) != 2 || len(noise["untested"].([]any)) != 0 {
		t.Errorf("noise: %v", noise)
	}
	head := v["head"].(string)
	if code, out, _ := popri(t, "account", "audit", first, "--trials", "0", "--skip-noise"); code != 0 ||
		!strings.Contains(out, "The noise was not measured of rounds 1, 2: --skip-noise") {
		t.Errorf("without measuring: exit code %d, %s", code, out)
	}
	code, out, _ = popri(t, "account", "audit", first, "--trials", "0", "--head", head[:16])
	if code != 0 || !strings.Contains(out, head) || !strings.Contains(out, "can evade this test") {
		t.Errorf("with its head: exit code %d, %s", code, out)
	}
	if code, out, _ := popri(t, "account", "audit", first, "--trials", "0", "--head",
		strings.Repeat("0", 12)); code != exitFailed || !strings.Contains(out, "taken away together with the head") {
		t.Errorf("with another head: exit code %d, %s", code, out)
	}
	beside := filepath.Join(t.TempDir(), "beside")
	if code, _, errs := popri(t, "run", "--config", w.File, "--set", "trainer.rounds=1", "--set", "seed=7", "--out",
		beside, "--quiet"); code != 0 {
		t.Fatal(errs)
	}
	code, out, errs = popri(t, "account", "audit", first, beside, first, "--trials", "0", "--json")
	all := decode(t, out)
	if code != 0 || len(all["runs"].([]any)) != 3 || len(all["composed"].([]any)) != 1 {
		t.Fatalf("several runs: exit code %d, %v, %s", code, all, errs)
	}
	together := all["composed"].([]any)[0].(map[string]any)
	if epsilon := number(t, together, "epsilon"); epsilon <= 1.2*v["budget"].(float64) || together["charges"] != 3.0 {
		t.Errorf("together: %v, each alone spends up to %v", together, v["budget"])
	}
	for args, want := range map[string]string{"--head 12": "want 12 to 64 hex digits",
		beside + " --head " + head: "one run's ledger"} {
		if code, _, errs := popri(t, append([]string{"account", "audit", first, "--trials", "0"},
			strings.Fields(args)...)...); code != exitUsage || !strings.Contains(errs, want) {
			t.Errorf("%s: exit code %d, %s", args, code, errs)
		}
	}

	// A run on the same clients has what the first one left of the budget: nothing, or the rest of a larger one.
	again := []string{"run", "--config", w.File, "--quiet", "--set", "trainer.rounds=2", "--set",
		"privacy.continues=" + first}
	if code, _, errs := popri(t, append(again, "--out", second)...); code != exitRefused ||
		!strings.Contains(errs, "budget") {
		t.Errorf("a second run on a spent budget: exit code %d, %s", code, errs)
	}
	more := fmt.Sprintf("privacy.epsilon=%g", 2*v["budget"].(float64))
	if code, _, errs := popri(t, append(again, "--set", more, "--set", "fed.sampling=poisson", "--set",
		"fed.clients_per_round=10", "--out", second)...); code != 0 {
		t.Fatal(errs)
	}
	code, out, errs = popri(t, "account", "audit", second, "--trials", "0", "--json")
	v = decode(t, out)
	if code != 0 || v["charges"] != 4.0 || v["releases"] != 2.0 || v["decides"] != "pld" ||
		!strings.Contains(out, "2 releases of earlier runs") || !strings.Contains(out, "in secret") {
		t.Errorf("the second run: exit code %d, %v, %s", code, v, errs)
	}
	if code, out, _ := popri(t, "account", "audit", first, "--trials", "0"); code != 0 ||
		!strings.Contains(out, "continued by another run's ledger") {
		t.Errorf("the first run afterwards: exit code %d, %s", code, out)
	}
	if code, _, errs := popri(t, append(again, "--set", more, "--out", second+"2")...); code != exitUsage ||
		!strings.Contains(errs, "continued elsewhere") || rundir.Exists(second+"2") {
		t.Errorf("continued twice: exit code %d, %s", code, errs)
	}
	release := filepath.Join(first, "rounds", "0001", "release.bin")
	b := testfile.Read(t, release)
	b[len(b)-1] ^= 1
	testfile.Write(t, release, b)
	if code, out, errs := popri(t, "account", "audit", first, "--trials", "0"); code != exitFailed ||
		!strings.Contains(out, "has no charge") || !strings.Contains(errs, "audit") {
		t.Errorf("a changed release: exit code %d, %s, %s", code, out, errs)
	}
	if code, _, errs := popri(t, "data", "push-ready", first, "--unprotected", "--out",
		filepath.Join(t.TempDir(), "hub")); code == 0 || !strings.Contains(errs, "does not pass the audit") {
		t.Errorf("a run that fails its audit is given away: exit code %d, %s", code, errs)
	}
	testfile.Remove(t, w.Public)
	if code, out, errs := popri(t, "account", "audit", beside, "--trials", "0"); code != exitUnmeasured ||
		!strings.Contains(out, "The noise was not measured of round 1: the encoder cannot be opened") {
		t.Errorf("without the public texts: exit code %d, %s, %s", code, out, errs)
	}
}

// TestRunVerbs leads one small run through run, eval, report and compare.
func TestRunVerbs(t *testing.T) {
	w := testworld.Make(t)
	dir := filepath.Join(t.TempDir(), "run")
	code, out, errs := popri(t, "run", "--config", w.File, "--out", dir, "--json")
	if code != 0 {
		t.Fatal(errs)
	}
	if v := decode(t, out); v["rounds"] != 2.0 || v["clients"] != 30.0 || v["run"] != dir {
		t.Errorf("run gives %v", v)
	}
	events, err := os.ReadFile(filepath.Join(dir, rundir.Events))
	if err != nil || !strings.Contains(errs, "public texts: ") ||
		strings.Count(string(events), `"event":"public_texts"`) != 1 {
		t.Errorf("the run does not say how many public texts it uses: %v, %s", err, errs)
	}
	short, long := filepath.Join(t.TempDir(), "short"), ""
	for i := range 60 {
		long += strings.Repeat(fmt.Sprintf("one more word %d and %d ", i%7, i%11), 50) + "\n"
	}
	code, _, errs = popri(t, "run", "--config", w.File, "--out", short, "--set",
		"data.public="+write(t, t.TempDir(), "long.txt", long))
	if code != exitUsage || !strings.Contains(errs, "data.public ") || !strings.Contains(errs, "long.txt") ||
		!strings.Contains(errs, "0 of 60 texts") {
		t.Errorf("public texts that are all too long: exit code %d, %s", code, errs)
	}
	if code, _, errs := popri(t, "run", "--config", w.File, "--out", dir); code != exitUsage ||
		!strings.Contains(errs, "--resume") {
		t.Errorf("a second run in the same folder: exit code %d, %s", code, errs)
	}

	code, out, errs = popri(t, "eval", "--run", dir, "--json", "--quiet")
	if code != 0 {
		t.Fatal(errs)
	}
	var got evaluation.Outcome
	if err := json.Unmarshal([]byte(out), &got); err != nil {
		t.Fatal(err)
	}
	stored, err := evaluation.Read(dir)
	if err != nil || !reflect.DeepEqual(stored, &got) {
		t.Errorf("%v: eval.json holds %+v, printed is %+v", err, stored, got)
	}
	for _, key := range []string{"public", "untuned", "popri", "public_all", "private"} {
		if r := got.Result(key); r == nil || r.Accuracy <= 0 || r.Accuracy >= 1 || r.AccuracyCI == nil ||
			r.AccuracyCI[0] > r.Accuracy || r.AccuracyCI[1] < r.Accuracy {
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
	code, out, errs = popri(t, "eval", "--config", w.File, "--synthetic", synthetic, "--private", w.Private, "--model",
		w.Device, "--json", "--quiet")
	if code != 0 {
		t.Fatal(errs)
	}
	var judged evaluation.Outcome
	if err := json.Unmarshal([]byte(out), &judged); err != nil {
		t.Fatal(err)
	}
	if a, b := judged.Result(evaluation.KeyText), got.Result("popri"); a == nil || a.Accuracy != b.Accuracy ||
		!reflect.DeepEqual(a.GapClosedCI, b.GapClosedCI) || len(judged.Results) != 3 {
		t.Errorf("judged by itself the set has %+v, in the run %+v", a, b)
	}

	// The small model is a folder that writes text and that a hub takes.
	small, hub := filepath.Join(dir, "small"), filepath.Join(t.TempDir(), "hub")
	for _, args := range [][]string{{"generate", "--model", small, "--prompt", "the", "--max-new-tokens", "4"},
		{"data", "push-ready", dir, "--model", "--unprotected", "--license", "mit", "--out", hub},
		{"generate", "--model", hub, "--prompt", "the", "--max-new-tokens", "4"}} {
		if code, out, errs := popri(t, args...); code != 0 || out == "" {
			t.Errorf("%q: exit code %d, %s", args, code, errs)
		}
	}
	if card, err := os.ReadFile(filepath.Join(hub, "README.md")); err != nil || !strings.Contains(string(card),
		"license: mit") || !strings.Contains(string(card), "| "+got.Result("popri").Name+" |") {
		t.Errorf("the card: %v\n%s", err, card)
	}

	page := filepath.Join(dir, "report.html")
	testfile.Remove(t, page)
	code, out, errs = popri(t, "report", dir)
	if b, err := os.ReadFile(page); code != 0 || err != nil || strings.TrimSpace(out) != page ||
		!strings.Contains(string(b), "POPri") {
		t.Errorf("report: exit code %d, %v, %q, %s", code, err, out, errs)
	}
	compared := filepath.Join(t.TempDir(), "compare.html")
	code, out, errs = popri(t, "compare", dir, dir, "--out", compared, "--json")
	if _, err := os.Stat(compared); code != 0 || err != nil || decode(t, out)["report"] != compared {
		t.Errorf("compare: exit code %d, %v, %q, %s", code, err, out, errs)
	}
	if _, out, _ := popri(t, "compare", dir, dir, "--out", compared); !strings.Contains(out,
		"2 runs on the same private data, together: ε = ") {
		t.Errorf("compare does not say what the runs spend together: %s", out)
	}
	for _, c := range []struct{ args, want string }{
		{"report " + filepath.Join(dir, "rounds"), "no run"},
		{"compare " + dir, "--out"},
		{"eval", "--synthetic"},
		{"eval --run " + dir + " --synthetic x", "either"},
		{"eval --run " + dir + " --set seed=2", "--set"},
		{"eval --run " + w.Dir, "no run"},
		{"eval --run " + dir + " --small nowhere", "nowhere"},
		{"generate --prompt a --prompts b", "--prompt"},
		{"eval --synthetic " + filepath.Join(dir, "nowhere.txt") + " --private " + w.Private + " --model " + w.Device,
			"nowhere.txt"},
		{"eval --synthetic " + w.Public + " --private " + w.Private + " --model nowhere", "nowhere"},
	} {
		if code, out, errs := popri(t, strings.Fields(c.args)...); code != exitUsage || out != "" ||
			!strings.Contains(errs, c.want) {
			t.Errorf("%s: exit code %d, %q, %s", c.args, code, out, errs)
		}
	}
}
