package run

import (
	"bytes"
	"path/filepath"
	"testing"

	"popri/accountant/ledger"
	"popri/configs"
	"popri/internal/rundir"
	"popri/testkit/testworld"
)

// needed are files that a run of a method cannot be without.
var needed = map[string][]string{
	"popri": {"rounds/0001/samples.parquet", "rounds/0001/adapter/adapter_model.safetensors",
		"rounds/0001/optimizer.safetensors", "rounds/0001/pairs.parquet"},
	"private_evolution": {"rounds/0001/samples.parquet",
		"rounds/0001/selection.parquet", "rounds/0002/variations.parquet"},
	"private_evolution_sft": {"rounds/0001/samples.parquet", "rounds/0001/adapter/adapter_model.safetensors"},
	"grpo": {"rounds/0001/samples.parquet", "rounds/0001/adapter/adapter_model.safetensors",
		"rounds/0001/optimizer.safetensors", "rounds/0001/steps.jsonl"},
	"public_selection": {"rounds/0001/selection.parquet"},
	"wasp": {"rounds/0001/samples.parquet", "rounds/0001/selection.parquet",
		"rounds/0001/generator_00.parquet"},
	"dp_fedavg": {"rounds/0001/release.bin", "small/model.safetensors", "small/config.json",
		"small/tokenizer.json"},
	"word_pairs":  {"rounds/0001/release.bin", "small/model.safetensors", "small/mixture.json"},
	"genetic_eda": {"rounds/0001/release.bin", "rounds/0001/written.parquet", "rounds/0001/selection.parquet"},
	"hot_pate":    {"rounds/0001/release-00001.bin", "rounds/0002/samples.parquet"},
	"dp_ftrl":     {"rounds/0003/release.bin", "small/model.safetensors"},
	"ctcl":        {"rounds/0001/release.bin", "rounds/0001/public.safetensors", "rounds/0003/release.bin"},
	"buttress":    {"rounds/0001/selection.parquet", "synthetic.parquet"},
}

// knows reports whether [sameRun] knows what a run of the method holds.
func knows(method string) bool { return len(needed[method]) > 0 }

// sameRun fails the test unless the run in dir has the files, charges and ε of the one in want.
func sameRun(t *testing.T, dir, want string) {
	t.Helper()
	a, b := testworld.Content(t, want), testworld.Content(t, dir)
	for name := range a {
		if x, ok := b[name]; ok && !bytes.Equal(a[name], x) {
			t.Errorf("%s is not what an uninterrupted run has", filepath.Join(dir, name))
		}
	}
	_, entriesA := testworld.Charges(t, want)
	_, entriesB := testworld.Charges(t, dir)
	for i := range min(len(entriesA), len(entriesB)) {
		if entriesA[i] != entriesB[i] {
			t.Errorf("charge %d is %+v, want %+v", i+1, entriesB[i], entriesA[i])
		}
	}
	sameCharges(t, dir, want)
}

// samePart reports whether every file of the unfinished run in dir is as in the finished one in want.
func samePart(t *testing.T, dir, want string) bool {
	t.Helper()
	a, b := testworld.Content(t, want), testworld.Content(t, dir)
	for name, x := range b {
		if name != rundir.Latest && !bytes.HasPrefix(a[name], x) { // a log of steps may have its first lines only
			t.Logf("an unfinished run has another %s", name)
			return false
		}
	}
	return true
}

// sameCharges fails the test unless the run in dir has files of the same names, as many charges and the same ε as the
// one in want.
func sameCharges(t *testing.T, dir, want string) {
	t.Helper()
	a, b := testworld.Content(t, want), testworld.Content(t, dir)
	for name := range a {
		if _, ok := b[name]; !ok {
			t.Errorf("%s lacks %s", dir, name)
		}
	}
	for name := range b {
		if _, ok := a[name]; !ok {
			t.Errorf("%s is left over", filepath.Join(dir, name))
		}
	}
	c, err := configs.Load(configs.LoadOptions{File: filepath.Join(want, rundir.Config)})
	if err != nil {
		t.Fatal(err)
	}
	names := needed[c.Method]
	if !c.Learns() {
		names = append([]string{rundir.Synthetic}, names...)
	}
	for _, name := range names {
		if len(a[filepath.FromSlash(name)]) == 0 {
			t.Errorf("the uninterrupted run has no %s", name)
		}
	}
	budgetA, entriesA := testworld.Charges(t, want)
	budgetB, entriesB := testworld.Charges(t, dir)
	if budgetA != budgetB {
		t.Errorf("budget %+v, want %+v", budgetB, budgetA)
	}
	if len(entriesA) != len(entriesB) {
		t.Fatalf("%d charges, want %d", len(entriesB), len(entriesA))
	}
	spentA, errA := ledger.Spent(budgetA, entriesA)
	spentB, errB := ledger.Spent(budgetB, entriesB)
	if errA != nil || errB != nil || spentA != spentB || spentA > budgetA.Epsilon {
		t.Errorf("ε is %v (%v), want %v (%v), at most %v", spentB, errB, spentA, errA, budgetA.Epsilon)
	}
}
