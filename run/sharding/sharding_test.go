package sharding_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"popri/configs"
	"popri/datasets/clients"
	"popri/fedsim/audit"
	"popri/fedsim/client"
	"popri/fedsim/release"
	"popri/fedsim/sealing"
	"popri/fedsim/shard"
	"popri/internal/fault"
	"popri/internal/rundir"
	"popri/internal/testworld"
	"popri/methods/evolution"
	"popri/model/embedding"
	"popri/run"
	"popri/run/auditing"
	"popri/run/reporting"
	"popri/run/sharding"
)

// elsewhere changes a configuration of the tests' world to one whose train clients are elsewhere. private is their
// file.
func elsewhere(t *testing.T, c *configs.Config) (private string) {
	t.Helper()
	private = c.Data.Private
	p, err := clients.Read(private)
	if err != nil {
		t.Fatal(err)
	}
	c.Fed.Clients = len(p.Split(clients.Train))
	c.Eval.ReferencePrivate = false
	held := &clients.Population{Name: p.Name, Unit: p.Unit,
		Clients: append(p.Split(clients.Validation), p.Split(clients.Test)...)}
	c.Data.Private = filepath.Join(t.TempDir(), "held.parquet")
	if err := clients.Write(c.Data.Private, held); err != nil {
		t.Fatal(err)
	}
	return private
}

// merger is a key pair in a folder of its own.
func merger(t *testing.T) string {
	t.Helper()
	key := filepath.Join(t.TempDir(), "merger.key")
	if err := sealing.GenerateKey(key); err != nil {
		t.Fatal(err)
	}
	return key
}

// answer scores all shards of the question that the run waits with.
func answer(t *testing.T, w *sharding.WaitingError, private, key string, shards int) (parts []string) {
	t.Helper()
	for i := range shards {
		part := filepath.Join(t.TempDir(), fmt.Sprintf("%d.part", i+1))
		_, err := sharding.Score(t.Context(), sharding.ScoreOptions{DType: "float32", Private: private,
			Options: client.Options{Question: w.Question, Path: w.Encoder,
				Place: shard.Place{Shard: i + 1, Of: shards, Assignment: shard.ByID},
				To:    key + sealing.PublicSuffix, Out: part}})
		if err != nil {
			t.Fatal(err)
		}
		parts = append(parts, part)
	}
	return parts
}

// waits trains until the run waits for shards; nil at its end.
func waits(t *testing.T, o run.Options) *sharding.WaitingError {
	t.Helper()
	err := train(t.Context(), o)
	var w *sharding.WaitingError
	if err != nil && !errors.As(err, &w) {
		t.Fatal(err)
	}
	return w
}

// runInShards does a whole run whose questions are answered in 1, 2, 3, … shards.
func runInShards(t *testing.T, c configs.Config, private string) (dir string, merges int) {
	t.Helper()
	dir, key := filepath.Join(t.TempDir(), "run"), merger(t)
	for w := waits(t, run.Options{Config: c, Dir: dir}); w != nil; w = waits(t, run.Options{Dir: dir, Resume: true}) {
		merges++
		if got := sharding.WaitingRound(dir); got != w.Round {
			t.Errorf("the run waits in round %d, not %d", w.Round, got)
		}
		r, err := sharding.Merge(sharding.MergeOptions{Dir: dir, Round: w.Round, Key: key,
			Parts: answer(t, w, private, key, 2*merges+1)})
		if err != nil || r.Resumed || r.Clients != c.Fed.Clients {
			t.Fatalf("merge of round %d: %+v, %v", w.Round, r, err)
		}
	}
	return dir, merges
}

// TestShards: a run whose clients are elsewhere has the releases, the charges and the texts of one that reads them
// itself, to the last bit, for every query that travels; and its audit is sound.
func TestShards(t *testing.T) {
	for name, change := range map[string]func(*configs.Config){
		"rounds":  func(*configs.Config) {},
		"hashing": func(c *configs.Config) { c.Scoring.Encoder = "hashing" },
		"compact": func(c *configs.Config) { c.Scoring.Release, c.Scoring.Normalize = "compact", "none" },
		"once":    testworld.AskOnce,
		"form": func(c *configs.Config) {
			testworld.AskOnce(c)
			c.Scoring.Form = 0.3
		},
		"votes": func(c *configs.Config) { c.Method = evolution.Description.Name },
		"bert": func(c *configs.Config) {
			c.Scoring.Encoder, c.Trainer.Rounds = filepath.Join("..", "..", "testdata", "golden", "sentence",
				"bert-first"), 1
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := testworld.Shared(t).Config
			change(&c)
			want := t.TempDir()
			if err := train(t.Context(), run.Options{Config: c, Dir: want}); err != nil {
				t.Fatal(err)
			}
			private := elsewhere(t, &c)
			dir, merges := runInShards(t, c, private)
			_, wanted := testworld.Charges(t, want)
			b, got := testworld.Charges(t, dir)
			if merges == 0 || len(got) != len(wanted) || len(got) != merges || b.Clients != 30 || b.Data != "" {
				t.Fatalf("%d merges, %d charges, want %d; the budget is %+v", merges, len(got), len(wanted), b)
			}
			files := []string{rundir.Synthetic}
			for i := range got {
				if got[i] != wanted[i] {
					t.Errorf("charge %+v, want %+v", got[i], wanted[i])
				}
				files = append(files, fmt.Sprintf("rounds/%04d/%s", i+1, release.File))
			}
			for _, file := range files {
				x, err := os.ReadFile(filepath.Join(dir, file))
				y, errWant := os.ReadFile(filepath.Join(want, file))
				if err != nil || errWant != nil || !bytes.Equal(x, y) {
					t.Errorf("%s is not what one process makes (%v, %v)", file, err, errWant)
				}
			}
			r, err := audit.Run(dir, audit.Options{Expect: auditing.Expected})
			if err != nil || !r.Sound() || r.Releases != merges {
				t.Errorf("the audit: %d releases, %q (%v)", r.Releases, r.Problems, err)
			}
			if _, err := reporting.Write(dir); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestWholeFiles: shards can be files, and a run needs no client of its own.
func TestWholeFiles(t *testing.T) {
	c := testworld.Shared(t).Config
	c.Trainer.Rounds = 1
	want := t.TempDir()
	if err := train(t.Context(), run.Options{Config: c, Dir: want}); err != nil {
		t.Fatal(err)
	}
	all, err := clients.Read(elsewhere(t, &c))
	if err != nil {
		t.Fatal(err)
	}
	c.Data.Private = configs.None
	dir, key := filepath.Join(t.TempDir(), "run"), merger(t)
	w := waits(t, run.Options{Config: c, Dir: dir})
	var parts []string
	for i, some := range [][]clients.Client{all.Clients[:11], all.Clients[11:]} {
		o := sharding.ScoreOptions{Private: filepath.Join(t.TempDir(), "some.parquet"),
			Options: client.Options{Question: w.Question, Path: w.Encoder, Place: shard.Place{Shard: i + 1, Of: 2,
				Assignment: shard.ByFile}, To: key + sealing.PublicSuffix,
				Out: filepath.Join(t.TempDir(), "part")}}
		if err := clients.Write(o.Private, &clients.Population{Clients: some}); err != nil {
			t.Fatal(err)
		}
		if _, err := sharding.Score(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		parts = append(parts, o.Out)
	}
	r, err := sharding.Merge(sharding.MergeOptions{Dir: dir, Round: 1, Key: key, Parts: parts})
	if err != nil {
		t.Fatal(err)
	}
	if _, wanted := testworld.Charges(t, want); wanted[0].ReleaseHash != r.Hash {
		t.Errorf("the release has the hash %s, want %s", r.Hash, wanted[0].ReleaseHash)
	}
	if w := waits(t, run.Options{Dir: dir, Resume: true}); w != nil {
		t.Errorf("%v", w)
	}
}

// TestMergeAgain: a merge after the release, or after one that ended with a pending release, draws and charges nothing
// more.
func TestMergeAgain(t *testing.T) {
	c := testworld.Shared(t).Config
	c.Trainer.Rounds, c.Privacy.InsecureSeededNoise = 1, false
	private := elsewhere(t, &c)
	dir, key := filepath.Join(t.TempDir(), "run"), merger(t)
	w := waits(t, run.Options{Config: c, Dir: dir})
	o := sharding.MergeOptions{Dir: dir, Round: 1, Key: key, Parts: answer(t, w, private, key, 2)}
	first, err := sharding.Merge(o)
	if err != nil {
		t.Fatal(err)
	}
	again, err := sharding.Merge(o)
	if err != nil || again.Hash != first.Hash || !again.Resumed {
		t.Errorf("merged again: %+v, %v", again, err)
	}
	// Killed between charge and rename: the file is still pending.
	final, pending := filepath.Join(rundir.Round(dir, 1), release.File), filepath.Join(rundir.Round(dir, 1),
		release.PendingFile)
	if err := os.Rename(final, pending); err != nil {
		t.Fatal(err)
	}
	again, err = sharding.Merge(sharding.MergeOptions{Dir: dir, Round: 1, Key: key})
	if err != nil || again.Hash != first.Hash {
		t.Errorf("merged after the charge: %+v, %v", again, err)
	}
	if _, entries := testworld.Charges(t, dir); len(entries) != 1 {
		t.Errorf("%d charges", len(entries))
	}
	if w := waits(t, run.Options{Dir: dir, Resume: true}); w != nil {
		t.Errorf("%v", w)
	}
}

// TestMergeKilledAtAnyMoment kills merges with SIGKILL at random moments, until one ends. The round has one charge
// then, and no two noised sums were ever on disk.
func TestMergeKilledAtAnyMoment(t *testing.T) {
	c := testworld.Shared(t).Config
	c.Trainer.Rounds, c.Privacy.InsecureSeededNoise = 1, false
	private := elsewhere(t, &c)
	dir, key := filepath.Join(t.TempDir(), "run"), merger(t)
	w := waits(t, run.Options{Config: c, Dir: dir})
	files := strings.Join(append([]string{key}, answer(t, w, private, key, 3)...), "\n")
	seen := map[string]bool{}
	kills, alive := 0, 5*time.Millisecond
	for {
		cmd, out := testworld.Process(t, dir, "")
		cmd.Env = append(cmd.Env, childMerge+"="+files)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		kill := time.AfterFunc(alive, func() { _ = cmd.Process.Kill() }) // it may have ended
		err := cmd.Wait()
		kill.Stop()
		for _, name := range []string{release.PendingFile, release.File} {
			if b, err := os.ReadFile(filepath.Join(rundir.Round(dir, 1), name)); err == nil {
				seen[string(b)] = true
			}
		}
		if err == nil {
			break
		}
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.ExitCode() >= 0 {
			t.Fatalf("the merge failed: %v\n%s", err, out)
		}
		kills++
		alive += alive / 7
	}
	t.Logf("faults: %d kills", kills)
	if _, entries := testworld.Charges(t, dir); len(entries) != 1 || len(seen) != 1 || kills == 0 {
		t.Errorf("%d charges and %d noised sums after %d kills", len(entries), len(seen), kills)
	}
	if w := waits(t, run.Options{Dir: dir, Resume: true}); w != nil {
		t.Errorf("%v", w)
	}
}

// TestShardMistakes: what does not fit together is refused with words, and charges nothing.
func TestShardMistakes(t *testing.T) {
	c := testworld.Shared(t).Config
	c.Trainer.Rounds = 1
	private := elsewhere(t, &c)
	own := c
	own.Data.Private = private
	mistaken := func(err error, words ...string) {
		t.Helper()
		if err == nil || !fault.IsUser(err) {
			t.Errorf("want a user's mistake about %q, got %v", words, err)
			return
		}
		for _, word := range words {
			if !strings.Contains(err.Error(), word) {
				t.Errorf("%q lacks %q", err, word)
			}
		}
	}
	mistaken(train(t.Context(), run.Options{Config: own, Dir: t.TempDir()}), private, "30 train clients", "none")

	dir, other, key := filepath.Join(t.TempDir(), "run"), filepath.Join(t.TempDir(), "other"), merger(t)
	w := waits(t, run.Options{Config: c, Dir: dir})
	parts := answer(t, w, private, key, 2)
	few := c
	few.Fed.Clients = 29
	wrong := waits(t, run.Options{Config: few, Dir: other})
	few.Seed++
	reseeded := filepath.Join(t.TempDir(), "seed")
	waits(t, run.Options{Config: few, Dir: reseeded})

	merge := func(o sharding.MergeOptions) error { _, err := sharding.Merge(o); return err }
	good := sharding.MergeOptions{Dir: dir, Round: 1, Key: key, Parts: parts}
	with := func(change func(*sharding.MergeOptions)) sharding.MergeOptions { o := good; change(&o); return o }
	mistaken(merge(with(func(o *sharding.MergeOptions) { o.Parts = parts[:1] })), "of 2 shards, 2: not given")
	mistaken(merge(with(func(o *sharding.MergeOptions) { o.Parts = nil })), "no partial sums")
	mistaken(merge(with(func(o *sharding.MergeOptions) { o.Round = 2 })), "round 2", "not waiting")
	mistaken(merge(with(func(o *sharding.MergeOptions) { o.Key = merger(t) })), "encrypted to the key")
	mistaken(merge(with(func(o *sharding.MergeOptions) { o.Dir = reseeded })), "another question")
	mistaken(merge(sharding.MergeOptions{Dir: other, Round: 1, Key: key, Parts: answer(t, wrong, private, key, 2)}),
		"30 clients together", "29")
	if _, entries := testworld.Charges(t, dir); len(entries) != 0 {
		t.Errorf("%d charges", len(entries))
	}

	// Another encoder than the question's.
	e, err := embedding.FitHashing([]string{"a text"}, embedding.HashingConfig{Dim: 8})
	if err != nil {
		t.Fatal(err)
	}
	foreign := filepath.Join(t.TempDir(), "encoder")
	if err := embedding.Save(foreign, e); err != nil {
		t.Fatal(err)
	}
	score := func(change func(*sharding.ScoreOptions)) error {
		o := sharding.ScoreOptions{Private: private, Options: client.Options{Question: w.Question, Path: w.Encoder,
			To: key + sealing.PublicSuffix, Place: shard.Place{Shard: 1, Of: 1, Assignment: shard.ByID},
			Out: filepath.Join(t.TempDir(), "part")}}
		change(&o)
		_, err := sharding.Score(t.Context(), o)
		return err
	}
	mistaken(score(func(o *sharding.ScoreOptions) { o.Path = foreign }), foreign, "hashing-8")
	mistaken(score(func(o *sharding.ScoreOptions) { o.Path += "x" }), "encoder")
	mistaken(score(func(o *sharding.ScoreOptions) { o.Question += "x" }), w.Question+"x", "no such file")
	mistaken(score(func(o *sharding.ScoreOptions) { o.Question = w.Encoder }), w.Encoder, "popri question 1")
	mistaken(score(func(o *sharding.ScoreOptions) { o.Private += "x" }), private+"x", "no such file")
	mistaken(score(func(o *sharding.ScoreOptions) { o.To = key }), key, "private key", "want a popri public key")
	mistaken(score(func(o *sharding.ScoreOptions) { o.Place.Shard = 2 }), "2/1")
	if err := os.Chmod(key, 0o644); err != nil {
		t.Fatal(err)
	}
	mistaken(merge(good), key, "0644")
}
