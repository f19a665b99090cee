package assembly

import (
	"fmt"
	"sync"

	"popri/configs"
	"popri/datasets"
	"popri/datasets/clients"
	"popri/datasets/godoc"
	"popri/internal/fault"
)

// Corpus is both halves of the data of a run.
type Corpus struct {
	Public  datasets.Public
	Private *clients.Population
}

// The names of the data that need no file.
const (
	embedded      = "godoc"
	withoutDomain = "godoc-without-domain"
)

// Embedded is the embedded default, read once in a process: a demo needs it for the run and twice for the report, and
// reading takes seconds. It must not be changed.
var Embedded = sync.OnceValues(func() (*godoc.Corpus, error) { return godoc.Load("") })

// LoadData reads what data.private and data.public name.
func LoadData(c configs.Config) (*Corpus, error) {
	private, err := LoadPrivate(c)
	if err != nil {
		return nil, err
	}
	public, err := LoadPublic(c)
	return &Corpus{public, private}, err
}

// LoadRun reads the data of a run and checks them: there are train clients, more than a cohort has, and the public half
// is not the private one. Warnings for the user go to warn, which may be nil.
func LoadRun(c configs.Config, warn func(string)) (*Corpus, error) {
	corpus, err := LoadData(c)
	if err != nil {
		return nil, err
	}
	if err := CheckLabels(c, corpus.Private); err != nil {
		return nil, err
	}
	switch train, n := len(corpus.Private.Split(clients.Train)), c.Fed.ClientsPerRound; {
	case c.Fed.Elsewhere() && warn != nil:
		warn("the train clients are elsewhere (fed.clients above 0): nobody compares their texts with data.public, which " +
			"prompts quote")
	case c.Fed.Elsewhere():
	case train == 0:
		return nil, fault.Userf("%s has no train clients", c.Data.Private)
	case n >= train:
		return nil, fault.Userf("fed.clients_per_round is %d, must be fewer than the %d train clients", n, train)
	}
	return corpus, checkPublic(c, corpus, warn)
}

// LoadPrivate reads the data that data.private names. If the train clients are elsewhere (fed.clients above 0), a file
// must have none.
func LoadPrivate(c configs.Config) (*clients.Population, error) {
	p, err := loadPrivate(c)
	if err != nil || !c.Fed.Elsewhere() {
		return p, err
	}
	held := &clients.Population{Name: p.Name, Unit: p.Unit,
		Clients: append(p.Split(clients.Validation), p.Split(clients.Test)...)}
	if n := len(p.Clients) - len(held.Clients); n > 0 && c.Data.Private != embedded {
		return nil, fault.Userf("data.private: %s has %d train clients, whom a run with fed.clients above 0 must not read: "+
			"name a file of validation and test clients, or %s", c.Data.Private, n, configs.None)
	}
	return held, nil
}

func loadPrivate(c configs.Config) (*clients.Population, error) {
	if c.Data.Private == configs.None {
		return &clients.Population{Name: "the list of enrolled clients"}, nil
	}
	p, err := readPrivate(c.Data.Private)
	if n := c.Data.TrainClients; err == nil && n > 0 { // before texts are left out: who is drawn must not depend on any
		if p, err = p.Subset(n, c.Seed); err != nil {
			err = fmt.Errorf("data.train_clients: %w", err)
		}
	}
	if err != nil || c.Data.Since == "" {
		return p, fault.User(err)
	}
	if p = p.Since(c.Data.Since); len(p.Clients) == 0 {
		return nil, fault.Userf("data.since is %s: %s has no text of that date or later", c.Data.Since, c.Data.Private)
	}
	p.Name += " since " + c.Data.Since
	return p, nil
}

func readPrivate(file string) (*clients.Population, error) {
	if file != embedded {
		return clients.Read(file)
	}
	g, err := Embedded()
	if err != nil {
		return nil, err
	}
	return g.Private, nil
}

// LoadPublic reads the data that data.public names, and nothing of the clients.
func LoadPublic(c configs.Config) (datasets.Public, error) {
	files := publicFiles(c.Data.Public)
	if c.NeedsLabels() {
		return readLabelled(files)
	}
	return ReadPublic(files...)
}

// checkPublic refuses public texts that are clients' texts: prompts quote public text word for word, and ε does not
// cover that.
func checkPublic(c configs.Config, corpus *Corpus, warn func(string)) error {
	var problem error
	overlap := corpus.Private.Overlap(datasets.Strings(corpus.Public.Prompts), leastOverlapWords)
	if overlap.Total() > 0 {
		problem = fmt.Errorf("data.public is %s: %s", c.Data.Public, overlap)
	}
	for _, file := range publicFiles(c.Data.Public) {
		switch column, err := clientColumn(file); {
		case err != nil:
			return fault.Userf("data.public: %w", err)
		case SameFile(file, c.Data.Private):
			problem = fmt.Errorf("data.public is %s, which is the file of the clients", file)
		case column != "":
			problem = fmt.Errorf("data.public is %s, which "+hasColumn, file, column)
		}
	}
	const risk = "prompts and public rows of the synthetic set repeat public text word for word, outside of ε"
	switch {
	case problem == nil:
	case !c.Data.AllowOverlap:
		return fault.Userf("%w; %s. popri data import --deduplicate near --public FILE takes them out of the "+
			"clients' file. If these texts are public nevertheless, set data.allow_overlap=true. (This message was "+
			"made from the clients' texts without noise: it is for people who may see them.)", problem, risk)
	case warn != nil:
		warn(fmt.Sprintf("%v; %s (data.allow_overlap)", problem, risk))
	}
	return nil
}

// leastOverlapWords is the length in words from which a public text like a private one is no coincidence.
const leastOverlapWords = 8
