package main

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"popri/datasets/clients"
	"popri/fedsim/aggregate/identity"
	"popri/fedsim/client"
	"popri/internal/fault"
	"popri/model/embedding"
	"popri/model/embedding/spago"
	"popri/testkit/golden"
	"popri/testkit/testfile"
)

// TestManyClients: a server with a file of many clients sends a report for each train client, with a key and a record
// of its own, to two aggregators of one process. The result is the sum of the clients' vectors. Validation clients do
// not answer, one who is not enrolled is counted, a client whose texts are all too old reports zeros, and a second start sends nothing more.
func TestManyClients(t *testing.T) {
	folder := filepath.Join(golden.Folder(t, "sentence"), "mpnet")
	encoder, err := spago.Open(folder)
	if err != nil {
		t.Fatal(err)
	}
	texts := []string{"rain in the north", "the last train home", "a boat on the river", "two clear days"}
	p := &clients.Population{Name: "some", Unit: "a patient", Clients: []clients.Client{
		{ID: "v", Split: clients.Validation, Texts: []string{"held out"}}}}
	for i, text := range texts {
		p.Clients = append(p.Clients, clients.Client{ID: fmt.Sprint("patient ", i), Split: clients.Train, Texts: []string{text}})
	}
	p.Clients = append(p.Clients, clients.Client{ID: "stranger", Split: clients.Train, Texts: []string{"who is this"}})
	dir := t.TempDir()
	private, keys, fed := filepath.Join(dir, "clients.parquet"), filepath.Join(dir, "keys"), filepath.Join(dir, "fed")
	if err := clients.Write(private, p); err != nil {
		t.Fatal(err)
	}
	urls := freeAddresses(t)
	if _, _, err := run("", "aggregate", "ca", "--out", fed, "--leader", urls[0], "--helper", urls[1]); err != nil {
		t.Fatal(err)
	}
	lines, _, err := run("", "answer", "--keygen", keys, "--texts", private)
	again, _, errAgain := run("", "answer", "--keygen", keys, "--texts", private)
	if err != nil || errAgain != nil || len(strings.Fields(lines)) != len(texts)+1 || lines != again {
		t.Fatalf("enrolled by %q, then by %q (%v, %v)", lines, again, err, errAgain)
	}
	enrolled := testfile.Write(t, filepath.Join(dir, "enrolled.txt"), lines[:strings.LastIndex(strings.TrimSpace(lines), "\n")+1])
	program(t, "aggregate", "both", "--identity", fed, "--enrolled", enrolled, "--state", filepath.Join(dir, "state"),
		"--epsilon", "5", "--delta", "1e-3", "--insecure-seed", fmt.Sprint(seed))
	untilHealthy(t, fed)

	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	onTorch := strings.Replace(embedding.Key(encoder), "-spago", "-float32", 1) // the same weights in another program
	a, files := announcement(t, encoder, onTorch)
	remotes := announced(ctx, t, urls, fed, a, files)
	answer := func(more ...string) (client.Tally, error) {
		out, _, err := run("y\n", append([]string{"answer", "--federation", filepath.Join(fed, identity.FederationFile),
			"--keys", keys, "--texts", private, "--record", filepath.Join(dir, "records"), "--epsilon", "3", "--delta",
			"1e-3", "--once", "--at-once", "--every", "10ms", "--insecure-seeds", "--encoder", folder}, more...)...)
		var said client.Tally
		if err == nil {
			err = json.Unmarshal([]byte(out), &said)
		}
		return said, err
	}
	other := filepath.Join(golden.Folder(t, "sentence"), "roberta")
	if _, err := answer("--encoder", other); !fault.IsUser(err) || !strings.Contains(err.Error(), other) {
		t.Errorf("another encoder's weights give %v", err)
	}
	if _, err := answer("--keys", t.TempDir()); !fault.IsUser(err) || !strings.Contains(err.Error(), "5 train clients") {
		t.Errorf("without keys: %v", err)
	}
	if said, err := answer(); err != nil || said != (client.Tally{Answered: len(texts), Unknown: 1}) {
		t.Fatalf("%+v, %v", said, err)
	}
	checkSum(ctx, t, remotes, a, encoder, texts)
	records, err := filepath.Glob(filepath.Join(dir, "records", "*", "ledger.jsonl"))
	if err != nil || len(records) != len(texts) {
		t.Errorf("%d records of %d clients (%v)", len(records), len(texts), err)
	}
}
