package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"popri/study"
	"popri/study/jobs"
	"popri/testkit/testfile"
	"popri/testkit/testworld"
)

// asCommand is the variable that makes the test's own program the command popri, for tasks of jobs.
const asCommand = "TEST_AS_POPRI"

// A Slurm that does its tasks at once, except that its first job loses the last task.
const (
	sbatch = `n=$(cat "$QUEUE/n" 2>/dev/null || echo 0); n=$((n+1)); echo $n > "$QUEUE/n"
tasks=$(sed -n 's/^#SBATCH --array=//p' "$2" | tr , ' ')
[ $n = 1 ] && tasks=${tasks% *}
for i in $tasks; do SLURM_ARRAY_TASK_ID=$i bash "$2" >> "$QUEUE/log" 2>&1; done
echo $n`
	squeue = `echo "slurm_load_jobs error: Invalid job id specified" >&2; exit 1`
)

func fakeSlurm(t *testing.T) (queue string) {
	t.Helper()
	queue = t.TempDir()
	for name, body := range map[string]string{"sbatch": sbatch, "squeue": squeue} {
		if err := os.WriteFile(filepath.Join(queue, name), []byte("#!/bin/bash\n"+body+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("QUEUE", queue)
	t.Setenv("PATH", queue+string(os.PathListSeparator)+os.Getenv("PATH"))
	t.Setenv(asCommand, "1")
	return queue
}

func TestAblateOnSlurm(t *testing.T) {
	w := testworld.Make(t)
	queue := fakeSlurm(t)
	t.Chdir(t.TempDir())
	command := func(more ...string) []string {
		return append([]string{"ablate", "--config", w.File, "--set", "trainer.rounds=1", "--over", "dpo.beta=0.05,0.1",
			"--out", "grid", "--every", "10ms", "--on", "slurm"}, more...)
	}
	// A dry run submits nothing, and says what would be spent.
	code, out, errs := popri(t, command("--dry-run", "--json")...)
	if code != 0 || !strings.Contains(errs, "2 runs on the same private data, together: ε = ") {
		t.Fatal(code, errs)
	}
	var dry submitted
	if err := json.Unmarshal([]byte(out), &dry); err != nil || dry.Open != 2 || len(dry.Composed) != 1 {
		t.Errorf("%v: %s", err, out)
	}
	if script, err := os.ReadFile(dry.Files); err != nil || !strings.Contains(string(script), "--array=0,1\n") {
		t.Errorf("%v: %s", err, script)
	}
	if _, err := os.Stat(filepath.Join(queue, "n")); err == nil {
		t.Fatal("the dry run submitted something")
	}

	// Cell 1 is lost. With --detach nobody notices, and --resume does.
	code, out, errs = popri(t, command("--detach")...)
	if code != 0 || !strings.Contains(out, "popri ablate --resume --out grid") {
		t.Fatal(code, out, errs)
	}
	code, out, errs = popri(t, "ablate", "--resume", "--out", "grid", "--json", "--every", "10ms")
	log, _ := os.ReadFile(filepath.Join(queue, "log"))
	if code != 0 {
		t.Fatalf("%s\nthe tasks:\n%s", errs, log)
	}
	var got study.Ablation
	if err := json.Unmarshal([]byte(out), &got); err != nil || len(got.Rows) != 2 {
		t.Errorf("%v: %s", err, out)
	}
	if strings.Count(errs, ": submitted (slurm 2)") != 1 || strings.Count(errs, "(done before)") != 2 ||
		strings.Count(string(log), "cell ") != 2 {
		t.Errorf("one task was lost, and nothing was done twice: %s\nthe tasks:\n%s", errs, log)
	}
	// Everything is done: the command reads it back, with and without jobs.
	if code, _, errs := popri(t, command()...); code != 0 || strings.Contains(errs, "submitted") ||
		strings.Contains(errs, "together") {
		t.Errorf("exit code %d: %s", code, errs)
	}
	if n, err := os.ReadFile(filepath.Join(queue, "n")); err != nil || string(n) != "2\n" {
		t.Errorf("%v: %s submissions", err, n)
	}
}

// A run that failed elsewhere is not run here: the table has the others, and the command fails.
func TestAblateTaskFails(t *testing.T) {
	w := testworld.Make(t)
	fakeSlurm(t)
	t.Chdir(t.TempDir())
	args := []string{"ablate", "--config", w.File, "--set", "trainer.rounds=1", "--over", "dpo.beta=0.05,0.1", "--out", "grid",
		"--every", "10ms", "--on", "slurm", "--attempts", "1", "--json"}
	for _, reason := range []string{"submitted 1 times", "is not there"} {
		code, out, errs := popri(t, args...)
		var got study.Ablation
		if err := json.Unmarshal([]byte(out), &got); err != nil || code != exitFailed || len(got.Rows) != 1 || len(got.Failed) != 1 ||
			strings.Contains(out, reason) || !strings.Contains(errs, reason) || !strings.Contains(errs, "1 of 2 runs failed") {
			t.Errorf("exit code %d, %v: %s\n%s", code, err, out, errs)
		}
		if err := os.RemoveAll(w.Generator); err != nil { // a mistake that no other attempt corrects
			t.Fatal(err)
		}
	}
}

func TestAblateJobMistakes(t *testing.T) {
	t.Chdir(t.TempDir())
	testfile.Write(t, "bad", "{{")
	over := []string{"--over", "dpo.beta=0.1"}
	for _, c := range []struct {
		args []string
		want string
	}{
		{append(over, "--on", "cron"), "slurm, ray, kubernetes"},
		{append(over, "--dry-run"), "--dry-run needs --on"},
		{append(over, "--job", "a=b"), "--job needs --on"},
		{append(over, "--on", "slurm", "--attempts", "0"), "--attempts is 0"},
		{append(over, "--resume"), "--over"},
		{[]string{"--resume"}, "no plan"},
		{append(over, "--cell", "1"), "--over"},
		{[]string{"--cell", "x"}, `"x"`},
		{[]string{"--cell", "1,2"}, indexVariable},
		{[]string{"--cell", "0"}, "no plan"},
		{[]string{"--on", "cron", "--print-template"}, "slurm, ray, kubernetes"},
	} {
		if code, out, errs := popri(t, append([]string{"ablate"}, c.args...)...); code != exitUsage || out != "" ||
			!strings.Contains(errs, c.want) {
			t.Errorf("%q: exit code %d, %q, %s", c.args, code, out, errs)
		}
	}
	for _, name := range jobs.Names() {
		want, err := jobs.Template(name)
		if err != nil {
			t.Fatal(err)
		}
		if code, out, errs := popri(t, "ablate", "--on", name, "--print-template"); code != 0 || out != want {
			t.Errorf("%s: exit code %d: %s", name, code, errs)
		}
	}
}

func TestCellNumber(t *testing.T) {
	for _, c := range []struct {
		text, index string
		want        int
	}{{"3", "", 3}, {"3", "0", 3}, {"4,7,9", "2", 9}, {"4,7", "", -1}, {"4,7", "2", -1}, {"4,7", "x", -1}, {"-1", "",
		-1}, {"", "", -1}} {
		got, err := cellNumber(c.text, c.index)
		if (err != nil) != (c.want < 0) || err == nil && got != c.want {
			t.Errorf("--cell %s with index %q: %d, %v", c.text, c.index, got, err)
		}
	}
}
