package main

import (
	"bytes"
	"encoding/json"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"popri/datasets/clients"
	"popri/fedsim/client"
	"popri/fedsim/sealing"
	"popri/fedsim/shard"
	"popri/internal/fault"
	"popri/internal/golden"
	"popri/model/embedding"
	"popri/model/embedding/spago"
	"popri/scoring"
	"popri/scoring/query"
)

// TestAnswers: the sums of two shards are, to the last bit, what their clients' vectors add up to, and a question for
// the same weights on libtorch is answered too.
func TestAnswers(t *testing.T) {
	folder := filepath.Join(golden.Folder(t, "sentence"), "mpnet")
	encoder, err := spago.Open(folder)
	if err != nil {
		t.Fatal(err)
	}
	var list []clients.Client
	var texts []string
	for i, text := range []string{"rain in the north", "the last train", "a boat on the river", "two clear days",
		"snow at night"} {
		list = append(list, clients.Client{ID: string(rune('a' + i)), Split: clients.Train, Texts: []string{text}})
		texts = append(texts, text)
	}
	dir := t.TempDir()
	private, key, question := filepath.Join(dir, "clients.parquet"), filepath.Join(dir, "key"), filepath.Join(dir,
		"question")
	if err := clients.Write(private, &clients.Population{Name: "some", Clients: list}); err != nil {
		t.Fatal(err)
	}
	if err := sealing.GenerateKey(key); err != nil {
		t.Fatal(err)
	}
	mean, err := scoring.NewMean(encoder.Dim(), scoring.MeanOptions{Full: true, Bound: 1}, "k")
	if err != nil {
		t.Fatal(err)
	}
	described, err := scoring.Describe(mean)
	if err != nil {
		t.Fatal(err)
	}
	onTorch := strings.Replace(embedding.Key(encoder), "-spago", "-float32", 1)
	q := shard.Question{Question: described, Round: 1, Clients: len(list), Encoder: onTorch}
	if err := q.Write(question); err != nil {
		t.Fatal(err)
	}
	run := func(args ...string) (out client.Answered, err error) {
		var b bytes.Buffer
		c := command(new(bool))
		c.SetArgs(args)
		c.SetOut(&b)
		if err = c.Execute(); err == nil {
			err = json.Unmarshal(b.Bytes(), &out)
		}
		return out, err
	}
	var parts []string
	answered := 0
	for _, place := range []string{"1/2", "2/2"} {
		part := filepath.Join(dir, strings.Replace(place, "/", "-", 1))
		out, err := run("--question", question, "--encoder", folder, "--private", private, "--shard", place, "--to",
			key+sealing.PublicSuffix, "--out", part)
		if err != nil {
			t.Fatal(err)
		}
		answered += out.Clients
		parts = append(parts, part)
	}
	if answered != len(list) {
		t.Errorf("%d of %d clients answered", answered, len(list))
	}
	read, _, err := shard.ReadQuestion(question)
	if err != nil {
		t.Fatal(err)
	}
	private1, err := sealing.ReadPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	sum, err := shard.Merge(private1, read, parts)
	if err != nil {
		t.Fatal(err)
	}
	got, err := mean.Finish(sum)
	if err != nil {
		t.Fatal(err)
	}
	vectors, err := encoder.Encode(texts)
	if err != nil {
		t.Fatal(err)
	}
	means, err := query.MeanEmbeddings(vectors, []int{0, 1, 2, 3, 4, 5})
	if err != nil {
		t.Fatal(err)
	}
	want, err := mean.Sum(query.Clients{Means: means})
	if err != nil {
		t.Fatal(err)
	}
	for i := range want {
		if got[i] != want[i] || math.IsNaN(got[i]) {
			t.Fatalf("value %d is %g, want %g", i, got[i], want[i])
		}
	}
	other := filepath.Join(golden.Folder(t, "sentence"), "roberta")
	if _, err := run("--question", question, "--encoder", other, "--private", private, "--shard", "1/1", "--to",
		key+sealing.PublicSuffix, "--out", filepath.Join(dir, "x")); !fault.IsUser(err) ||
		!strings.Contains(err.Error(), other) {
		t.Errorf("another encoder's weights give %v", err)
	}
	if _, err := run("--question", question, "--encoder", folder, "--private", private, "--shard", "3", "--to", "k",
		"--out", "x"); !fault.IsUser(err) || !strings.Contains(err.Error(), "3") {
		t.Errorf("a shard without a number gives %v", err)
	}
}
