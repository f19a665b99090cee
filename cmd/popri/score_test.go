package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"popri/fedsim/release"
	"popri/internal/rundir"
	"popri/internal/testworld"
)

// TestScoreVerb: a run waits with an exit code of its own, its question is answered in shards, by the run's folder or
// by files alone, and it goes on from the merged release.
func TestScoreVerb(t *testing.T) {
	w, err := testworld.New(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	run := in("run")
	expect := func(code int, words []string, args ...string) string {
		t.Helper()
		got, out, errs := popri(t, args...)
		if got != code {
			t.Fatalf("%v: exit code %d, want %d: %s", args, got, code, errs)
		}
		for _, word := range words {
			if !strings.Contains(out+errs, word) {
				t.Errorf("%v: %q lacks %q", args, out+errs, word)
			}
		}
		return out
	}
	begin := []string{"run", "--config", w.File, "--set", "trainer.rounds=1", "--set", "data.private=none", "--out",
		run}
	expect(exitUsage, []string{"data.private", "needs fed.clients above 0"}, begin...)
	expect(exitWaiting, []string{"waiting for the partial sums", "of 30 clients", "popri score --question",
		"popri run --resume --out " + run, "nobody compares"}, append(begin, "--set", "fed.clients=30")...)
	expect(exitWaiting, []string{"waiting"}, "run", "--resume", "--out", run)

	key := in("merger.key")
	expect(0, []string{key, key + ".pub"}, "score", "--keygen", key)
	expect(exitUsage, []string{"there already"}, "score", "--keygen", key)
	one := []string{"score", "--run", run, "--shard", "1/2", "--private", w.Private, "--to", key + ".pub", "--out",
		in("1.part"), "--json"}
	v := decode(t, expect(0, nil, one...))
	first := number(t, v, "clients")
	question, encoder := in("question"), in("encoder") // carried to another machine
	for from, to := range map[string]string{filepath.Join(rundir.Round(run, 1), rundir.Question): question,
		filepath.Join(run, rundir.Encoder): encoder} {
		b, err := os.ReadFile(from)
		if err == nil {
			err = os.WriteFile(to, b, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	two := []string{"score", "--question", question, "--encoder", encoder, "--shard", "2/2", "--private", w.Private,
		"--to", key + ".pub", "--out", in("2.part"), "--json"}
	v = decode(t, expect(0, nil, two...))
	if second := number(t, v, "clients"); first+second != 30 || first == 0 || second == 0 || v["round"] != 1.0 ||
		v["shard"] != "2/2" {
		t.Errorf("%g and %g clients: %v", first, second, v)
	}

	merge := []string{"score", "--merge", "--run", run, "--key", key}
	expect(exitUsage, []string{"of 2 shards, 2: not given"}, append(merge, in("1.part"))...)
	expect(exitUsage, []string{"twice"}, append(merge, in("1.part"), in("2.part"), in("2.part"))...)
	if _, err := os.Stat(filepath.Join(rundir.Round(run, 1), release.File)); err == nil {
		t.Fatal("a refused merge wrote a release")
	}
	v = decode(t, expect(0, nil, append(merge, "--json", in("2.part"), in("1.part"))...))
	if v["resumed"] != false || v["clients"] != 30.0 {
		t.Errorf("merged: %v", v)
	}
	hash := v["release_sha256"]
	v = decode(t, expect(0, nil, append(merge, "--json", "--round", "1", in("1.part"), in("2.part"))...))
	if v["resumed"] != true || v["release_sha256"] != hash {
		t.Errorf("merged again: %v", v)
	}
	expect(exitUsage, []string{"not waiting"}, append(merge, in("1.part"), in("2.part"))...)
	expect(0, []string{"guarantee:"}, "run", "--resume", "--out", run)
	expect(0, []string{"The files fit together", "1 round asked every client"}, "account", "audit", run, "--trials",
		"0")
}

// TestScoreMistakes: what is missing or contradicts itself is named.
func TestScoreMistakes(t *testing.T) {
	none := filepath.Join(t.TempDir(), "none")
	for want, args := range map[string][]string{
		"one of --shard, --merge and --keygen": {},
		"give one of":                          {"--merge", "--keygen", none},
		"--private is not given":               {"--shard", "1/2"},
		"--to is not given":                    {"--shard", "1/2", "--private", none},
		"--run or --question is not given":     {"--shard", "1/2", "--private", none, "--to", none},
		"--encoder is not given":               {"--shard", "1/2", "--private", none, "--to", none, "--question", none},
		`--shard: the shard is "half"`: {"--shard", "half", "--private", none, "--to", none, "--question", none,
			"--encoder", none},
		"the shard is 3/2": {"--shard", "3/2", "--private", none, "--to", none, "--question", none,
			"--encoder", none},
		none + ": no such file": {"--shard", "1/2", "--private", none, "--to", none, "--question", none,
			"--encoder", none},
		none + " holds no run": {"--shard", "1/2", "--private", none, "--to", none, "--run", none},
		`--dtype is "float16"`: {"--shard", "1/2", "--private", none, "--to", none, "--run", none,
			"--dtype", "float16"},
		"--key is not given":  {"--merge", "--run", none},
		`"1.part" is no flag`: {"--keygen", none, "1.part"},
		"holds no run":        {"--merge", "--run", none, "--key", none, "1.part"},
	} {
		code, stdout, errs := popri(t, append([]string{"score"}, args...)...)
		if code != exitUsage || stdout != "" || !strings.Contains(errs, want) {
			t.Errorf("%v: exit code %d, %q lacks %q", args, code, errs, want)
		}
	}
}
