package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"popri/accountant/ledger"
	"popri/datasets/clients"
	"popri/fedsim"
	"popri/fedsim/aggregate"
	"popri/fedsim/aggregate/identity"
	"popri/fedsim/aggregate/service"
	"popri/fedsim/client"
	"popri/fedsim/noise"
	"popri/fedsim/release"
	"popri/internal/fault"
	"popri/internal/numeric"
	"popri/internal/rng"
	"popri/model/embedding"
	"popri/scoring"
	"popri/testkit/testfile"
)

// asProgram makes the test binary serve as the program.
const asProgram = "POPRI_TEST_CLIENT"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// program starts the program; it is killed at the test's end.
func program(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	c := exec.Command(os.Args[0], args...)
	c.Env = append(os.Environ(), asProgram+"=1")
	var log bytes.Buffer
	c.Stderr = &log
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.Process.Kill() // it may have ended
		_ = c.Wait()
		if t.Failed() {
			t.Logf("%v:\n%s", args, log.String())
		}
	})
	return c
}

// run runs a command line in this process.
func run(stdin string, args ...string) (string, string, error) {
	var out, errs bytes.Buffer
	c := command(new(bool))
	c.SetArgs(args)
	c.SetOut(&out)
	c.SetErr(&errs)
	c.SetIn(strings.NewReader(stdin))
	err := c.Execute()
	return out.String(), errs.String(), err
}

const seed = uint64(3)

// TestPrograms: the federation of the documents, on this machine: certificates, two aggregators as processes, of which
// each is killed once, and clients with texts in a folder, in a mailbox, in a file and on standard input, of whom the
// last one's messages are carried by folders. Reports have range proofs. The result is the sum of the clients' vectors
// with the seeded noise of both.
func TestPrograms(t *testing.T) {
	dir := t.TempDir()
	fed := filepath.Join(dir, "fed")
	urls := freeAddresses(t)
	if out, _, err := run("", "aggregate", "ca", "--out", fed, "--clients", "4", "--leader", urls[0], "--helper",
		urls[1]); err != nil ||
		!strings.Contains(out, identity.FederationFile) {
		t.Fatal(out, err)
	}
	start := func(role aggregate.Role) *exec.Cmd {
		return program(t, "aggregate", string(role), "--identity", filepath.Join(fed, string(role)), "--enrolled",
			filepath.Join(fed, identity.EnrolledFile),
			"--state", filepath.Join(dir, string(role)), "--epsilon", "5", "--delta", "1e-3", "--insecure-seed",
			fmt.Sprint(seed))
	}
	running := map[aggregate.Role]*exec.Cmd{}
	for _, role := range aggregate.Roles {
		running[role] = start(role)
	}

	untilHealthy(t, fed)
	if _, _, err := run("", "aggregate", "health", "--federation", filepath.Join(fed, identity.FederationFile),
		"trainer"); !fault.IsUser(err) {
		t.Errorf("the health of a trainer: %v", err)
	}

	texts := []string{"rain in the north", "the last train home", "a boat on the river", "two clear days"}
	encoder, err := embedding.FitHashing(append([]string{"snow at night", "a quiet harbour"}, texts...),
		embedding.HashingConfig{})
	if err != nil {
		t.Fatal(err)
	}
	a, files := announcement(t, encoder, embedding.Key(encoder))
	a.Proof = aggregate.RangeProof
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	remotes := announced(ctx, t, urls, fed, a, files)

	// Each client has one of the texts, and each has it elsewhere.
	write := func(name, content string) string {
		return testfile.Write(t, filepath.Join(dir, name), content)
	}
	sources := []string{filepath.Dir(write("folder/note.txt", texts[0]+"\n")),
		write("mail.mbox",
			"From someone@example Mon Jan  1 00:00:00 2024\nDate: Mon, 1 Jan 2024 10:00:00 +0000\nSubject: none\n\n> "+
				"what did you see?\n"+texts[1]+"\n"),
		write("texts.jsonl",
			fmt.Sprintf("{\"client_id\":\"x\",\"text\":\"another's\"}\n{\"client_id\":\"me\",\"text\":%q}\n",
				texts[2])), "-"}
	answer := func(i int, stdin string, more ...string) (string, string, error) {
		return run(stdin, append([]string{"answer", "--federation", filepath.Join(fed, identity.FederationFile),
			"--key", identity.ClientKeyPath(fed, i+1),
			"--texts", sources[i], "--record", filepath.Join(dir, "records",
				fmt.Sprint(i)), "--epsilon", "3", "--delta", "1e-3", "--once", "--at-once", "--every", "10ms",
			"--insecure-seeds"}, more...)...)
	}
	// The first is asked, and says no before it says yes. It is told of the proof.
	_, question, err := answer(0, "no\n")
	if !errors.Is(err, client.ErrNotConfirmed) || !strings.Contains(question, urls[0]) ||
		!strings.Contains(question, urls[1]) || !strings.Contains(question, "of 3") ||
		!strings.Contains(question, "came with the question (SHA-256 ") ||
		!strings.Contains(question, "A proof that no number is larger") {
		t.Errorf("%v, after\n%s", err, question)
	}
	for i := range sources {
		stdin, more := "y\n", []string{}
		switch i {
		case 2:
			more = []string{"--client", "me", "--yes", "--announced-encoder"}
		case 3:
			carried := filepath.Join(dir, "carried")
			if _, _, err := run("", "aggregate", "fetch", "--federation", filepath.Join(fed, identity.FederationFile),
				"--out", carried); err != nil {
				t.Fatal(err)
			}
			stdin, more = texts[3]+"\n", []string{"--yes", "--announced-encoder", "--folder", carried}
		}
		out, _, err := answer(i, stdin, more...)
		var said struct {
			Round uint64
			Spent float64 `json:"epsilon_spent"`
		}
		if err != nil || json.Unmarshal([]byte(out), &said) != nil || said.Round != a.Round ||
			!(said.Spent > 0 && said.Spent < 3) {
			t.Fatalf("client %d: %q, %v", i, out, err)
		}
		if i == 3 {
			if _, _, err := run("", "aggregate", "send", "--federation", filepath.Join(fed, identity.FederationFile),
				filepath.Join(dir, "carried")); err != nil {
				t.Fatal(err)
			}
		}
		if i < len(aggregate.Roles) { // a kill in the midst of the reports
			role := aggregate.Roles[i]
			if err := running[role].Process.Kill(); err != nil {
				t.Fatal(err)
			}
			_ = running[role].Wait() // it says that it was killed
			running[role] = start(role)
		}
	}

	checkSum(ctx, t, remotes, a, encoder, texts)
	// With another client in the list, the ledger would not know what each has spent.
	other := identity.ClientKeyPath(fed, 9)
	line, _, err := run("", "answer", "--keygen", other)
	if err != nil {
		t.Fatal(err)
	}
	lines := testfile.Read(t, filepath.Join(fed, identity.EnrolledFile))
	_, rest, _ := strings.Cut(string(lines), "\n")
	if _, _, err := run("", "aggregate", "leader", "--identity", filepath.Join(fed, "leader"), "--enrolled",
		write("enrolled", line+rest), "--state", stopped(t, dir,
			running[aggregate.Leader]), "--epsilon", "5", "--delta", "1e-3", "--insecure-seed",
		fmt.Sprint(seed)); !fault.IsUser(err) || !strings.Contains(err.Error(), "other") {
		t.Errorf("another list of clients: %v", err)
	}
	for _, role := range aggregate.Roles {
		if _, charges, err := ledger.Read(filepath.Join(dir, string(role), "ledger.jsonl")); err != nil ||
			len(charges) != 1 {
			t.Errorf("the %s charged %+v (%v)", role, charges, err)
		}
	}
}

// stopped ends the leader and returns its folder.
func stopped(t *testing.T, dir string, leader *exec.Cmd) string {
	t.Helper()
	if err := leader.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	_ = leader.Wait() // its exit code means an interruption
	return filepath.Join(dir, string(aggregate.Leader))
}

// freeAddresses are addresses for both aggregators.
func freeAddresses(t *testing.T) (urls []string) {
	t.Helper()
	for range aggregate.Roles {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		urls = append(urls, "https://"+l.Addr().String())
		l.Close()
	}
	return urls
}

// untilHealthy waits until both aggregators answer, which is as soon as they listen.
func untilHealthy(t *testing.T, fed string) {
	t.Helper()
	for _, role := range aggregate.Roles {
		for {
			_, _, err := run("", "aggregate", "health", "--federation", filepath.Join(fed, identity.FederationFile),
				string(role))
			if err == nil {
				break
			}
			if t.Context().Err() != nil || fault.IsUser(err) {
				t.Fatal(err)
			}
			time.Sleep(10 * time.Millisecond)
		}
	}
}

// announced gives both aggregators an announcement and its files.
func announced(ctx context.Context, t *testing.T, urls []string, fed string, a *aggregate.Announcement,
	files [][]byte) map[aggregate.Role]*service.Remote {
	t.Helper()
	federation, err := identity.ReadFederation(filepath.Join(fed, identity.FederationFile))
	if err != nil {
		t.Fatal(err)
	}
	secrets, err := federation.ClientTLS(filepath.Join(fed, identity.Trainer))
	if err != nil {
		t.Fatal(err)
	}
	remotes := map[aggregate.Role]*service.Remote{}
	for i, role := range aggregate.Roles {
		remotes[role] = service.NewRemote(urls[i], role, secrets)
		t.Cleanup(remotes[role].Close)
		for _, content := range files {
			if err := remotes[role].PutFile(ctx, content); err != nil {
				t.Fatal(err)
			}
		}
		if err := remotes[role].Announce(ctx, a); err != nil {
			t.Fatal(err)
		}
	}
	return remotes
}

// announcement is a question for the mean embedding, and its files.
func announcement(t *testing.T, encoder embedding.Encoder, key string) (*aggregate.Announcement, [][]byte) {
	t.Helper()
	dir := t.TempDir()
	mean, err := scoring.NewMean(encoder.Dim(), scoring.MeanOptions{Full: true, Bound: 1, Checks: 8}, "k")
	if err != nil {
		t.Fatal(err)
	}
	described, err := scoring.Describe(mean)
	if err != nil {
		t.Fatal(err)
	}
	if err := (aggregate.Question{About: aggregate.Embeddings{Question: described, Encoder: key}, Round: 1,
		Clients: 4}).Write(filepath.Join(dir, "question")); err != nil {
		t.Fatal(err)
	}
	names := []string{"question"}
	if _, ok := encoder.(*embedding.Hashing); ok { // others are folders, which clients have
		names = append(names, "encoder")
		if err := embedding.Save(filepath.Join(dir, "encoder"), encoder); err != nil {
			t.Fatal(err)
		}
	}
	var files [][]byte
	var hashes [][]byte
	for _, name := range names {
		content := testfile.Read(t, filepath.Join(dir, name))
		hash := sha256.Sum256(content)
		files, hashes = append(files, content), append(hashes, hash[:])
	}
	a := &aggregate.Announcement{Version: aggregate.Version, Nonce: "n", Round: 1, Question: hashes[0],
		Query: mean.Name(), Values: uint64(mean.Len()), Bound: 1, Sigma: 2, Clients: 4, Least: 3,
		Deadline: uint64(time.Now().Add(time.Minute).Unix()), InsecureSeed: true}
	if len(hashes) > 1 {
		a.Encoder = hashes[1]
	}
	return a, files
}

// checkSum fetches both shares and compares their sum with the sum of the clients' vectors.
func checkSum(ctx context.Context, t *testing.T, remotes map[aggregate.Role]*service.Remote, a *aggregate.Announcement,
	encoder embedding.Encoder, texts []string) {
	t.Helper()
	shares := map[aggregate.Role]*aggregate.Share{}
	for role, remote := range remotes {
		share, err := remote.Share(ctx, a.ID())
		if err != nil {
			t.Fatal(err)
		}
		shares[role] = share
	}
	got, reports, err := aggregate.Merge(a, shares[aggregate.Leader], shares[aggregate.Helper])
	if err != nil || reports != len(texts) {
		t.Fatalf("%d reports, %v", reports, err)
	}
	if want := expected(t, a, encoder, texts); !slices.Equal(got, want) {
		t.Error("the sum is not that of the clients' vectors and both noises")
	}
}

// expected is the sum of the vectors of clients with a text each, with the seeded noise of both aggregators.
func expected(t *testing.T, a *aggregate.Announcement, encoder embedding.Encoder, texts []string) []int64 {
	t.Helper()
	mean, err := scoring.NewMean(encoder.Dim(), scoring.MeanOptions{Full: true, Bound: 1, Checks: 8}, "k")
	if err != nil {
		t.Fatal(err)
	}
	grid, err := a.Grid()
	if err != nil {
		t.Fatal(err)
	}
	var some []clients.Client
	for _, text := range texts {
		some = append(some, clients.Client{Texts: []string{text}})
	}
	all, err := fedsim.Embed(t.Context(), some, encoder, mean.NeedsTexts(), nil)
	if err != nil {
		t.Fatal(err)
	}
	sum, err := fedsim.Embedded{Clients: all}.Rounded(fedsim.Round{Request: release.Request{Query: mean}, Grid: grid,
		Cohort: numeric.Indices(len(texts))})
	if err != nil {
		t.Fatal(err)
	}
	derived := rng.Seed(seed, "noise")
	for _, role := range aggregate.Roles {
		if err := noise.Add(sum, grid, noise.Party(&derived, string(role), int(a.Round))); err != nil {
			t.Fatal(err)
		}
	}
	return sum
}

func TestClientMistakes(t *testing.T) {
	dir := t.TempDir()
	key := filepath.Join(dir, "me.key")
	line, _, err := run("", "answer", "--keygen", key)
	if err != nil || len(strings.TrimSpace(line)) != 44 {
		t.Fatal(line, err)
	}
	fed := filepath.Join(dir, "fed")
	if _, _, err := run("", "aggregate", "ca", "--out", fed, "--leader", "https://127.0.0.1:1", "--helper",
		"https://127.0.0.1:2"); err != nil {
		t.Fatal(err)
	}
	federation := filepath.Join(fed, identity.FederationFile)
	for want, args := range map[string][]string{
		"there already": {"answer", "--keygen", key},
		"--key":         {"answer", "--federation", federation, "--texts", dir, "--epsilon", "1", "--delta", "1e-3"},
		"--epsilon 0":   {"answer", "--federation", federation, "--key", key, "--texts", dir, "--delta", "1e-3"},
		"nobody can be asked": {"answer", "--federation", federation, "--key", key, "--texts", "-", "--epsilon", "1",
			"--delta", "1e-3"},
		"no such file": {"answer", "--federation", federation, "--key", key, "--texts", "nothing", "--epsilon", "1",
			"--delta", "1e-3"},
		"is no popri client key": {"answer", "--federation", federation, "--key", federation, "--texts", dir,
			"--epsilon", "1", "--delta", "1e-3"},
		"not empty": {"aggregate", "ca", "--out", fed, "--leader", "https://127.0.0.1:1", "--helper",
			"https://127.0.0.1:2"},
		"want https://host": {"aggregate", "ca", "--out", fed + "2", "--leader", "http://127.0.0.1:1", "--helper",
			"https://127.0.0.1:2"},
		"the helper": {"aggregate", "ca", "--out", fed + "2", "--leader", "https://127.0.0.1:1", "--helper",
			"127.0.0.1:2"},
		"another key than": {"aggregate", "leader", "--identity", filepath.Join(fed, "helper"), "--enrolled",
			federation, "--state", dir, "--delta", "1e-3"},
		"line 1": {"aggregate", "leader", "--identity", filepath.Join(fed, "leader"), "--enrolled", federation,
			"--state", dir, "--delta", "1e-3"},
		"0 clients, want at least 1": {"aggregate", "leader", "--identity", filepath.Join(fed, "leader"), "--enrolled",
			filepath.Join(fed, identity.EnrolledFile), "--state", dir, "--delta", "1e-3"},
	} {
		if _, _, err := run("", args...); !fault.IsUser(err) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %q", args, err, want)
		}
	}
}
