// Package judging judges a run's product, or any synthetic texts, against the clients whose texts are behind them and
// against clients who were held out (eval/judge). It reads train clients' texts without noise, for their owner's eyes.
package judging

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"popri/accountant/guarantee"
	"popri/configs"
	"popri/datasets"
	"popri/datasets/clients"
	"popri/eval/judge"
	"popri/internal/atomicfile"
	"popri/internal/fault"
	"popri/internal/rows"
	"popri/internal/rundir"
	"popri/methods/sampling"
	"popri/model/embedding"
	"popri/run/assembly"
	"popri/run/evaluation"
	"popri/run/tracking"
	"popri/show/report"
)

// The files of the folder that [Judge] writes: for the owner of the data alone.
const (
	Folder  = rundir.Judged
	Figures = "judge.json"
	Page    = "quality-and-privacy.html"
)

// Options say what is judged.
type Options struct {
	Run     string // the folder of a run, whose product is judged; or
	Product string // a file of texts: Parquet, JSON lines or plain lines
	// Config has the clients (data.private), public text and encoder of texts that no run made.
	Config configs.Config
	// Controls is a Parquet file of clients who were held out, "" for validation and test clients.
	Controls string
	Canaries string // a file of planted texts, one on each line
	Names    string // a file of names of people, one on each line
	Out      string // the folder that is written; "" for Folder in the run's
	// Trackers show how like the clients' the texts are (trackers.Names); Warn is called with a sentence for each that
	// fails.
	Trackers []string
	Warn     func(text string)
	Tell     func(stage string, done, total int)
}

// Judge judges, and writes figures and page. It returns the page's path.
func Judge(ctx context.Context, o Options) (*judge.Result, string, error) {
	in := judge.Input{Tell: o.Tell}
	c, name := o.Config, o.Product
	if o.Run != "" {
		if !rundir.Exists(o.Run) {
			return nil, "", fault.Userf("judge: %s holds no run", o.Run)
		}
		var err error
		if c, err = evaluation.RunConfig(o.Run); err != nil {
			return nil, "", err
		}
		name = o.Run
		if o.Out == "" {
			o.Out = filepath.Join(o.Run, Folder)
		}
		facts, err := guarantee.Read(o.Run)
		if err != nil {
			return nil, "", err
		}
		in.Delta = facts.Record.Budget.Delta
		if facts.Protects() {
			in.Epsilon = facts.Spent
		}
	}
	if err := os.MkdirAll(o.Out, 0o700); err != nil {
		return nil, "", fault.Userf("judge: the folder of the figures cannot be made: %w", err)
	}
	for _, name := range []string{Figures, Page} { // which also removes what a killed process left: figures without noise
		if err := atomicfile.Check(filepath.Join(o.Out, name)); err != nil {
			return nil, "", fault.Userf("judge: %w", err)
		}
	}
	if err := o.texts(&in); err != nil {
		return nil, "", err
	}
	if err := o.clients(c, &in); err != nil {
		return nil, "", err
	}
	public, err := assembly.LoadPublic(c)
	if err != nil {
		return nil, "", err
	}
	in.Public = datasets.Strings(public.Generator)
	encoder, err := assembly.NewEncoder(c, public)
	if err != nil {
		return nil, "", err
	}
	defer assembly.FreeEncoder(encoder)
	in.Encoder, in.Seed = embedding.Sentence(encoder), c.Seed
	if o.Run != "" {
		if in.Guesses, err = guesses(ctx, c, o.Run, in); err != nil {
			return nil, "", err
		}
	}
	result, err := judge.Judge(ctx, in)
	if err != nil {
		return nil, "", fault.Userf("%w", err)
	}
	if err := atomicfile.WriteJSON(filepath.Join(o.Out, Figures), result); err != nil {
		return nil, "", err
	}
	o.track(c, result)
	page := filepath.Join(o.Out, Page)
	return result, page, report.WriteJudgement(page, name, result)
}

// track shows the figures in trackers.
func (o Options) track(c configs.Config, r *judge.Result) {
	var t *tracking.Listener
	if o.Run != "" {
		t = tracking.Open(o.Trackers, o.Run, c, o.Warn)
	} else {
		t = tracking.OpenTexts(o.Trackers, o.Out, c, o.Warn)
	}
	t.Judged(r)
	t.Close()
}

// texts reads the synthetic set and the lists that the user names.
func (o Options) texts(in *judge.Input) (err error) {
	if o.Run != "" {
		written, err := rows.Read[sampling.Row](filepath.Join(o.Run, rundir.Synthetic))
		if errors.Is(err, fs.ErrNotExist) {
			return fault.Userf("judge: %s holds no synthetic set yet: let the run end first (--resume)", o.Run)
		}
		if err != nil {
			return err
		}
		for _, r := range written {
			in.Product, in.Labels = append(in.Product, r.Text), append(in.Labels, r.Label)
		}
	} else {
		texts, err := datasets.ReadPublic(o.Product)
		if err != nil {
			return fault.Userf("%w", err)
		}
		in.Product, in.Labels = datasets.Strings(texts), datasets.Labels(texts)
	}
	if in.Canaries, err = lines(o.Canaries); err != nil {
		return err
	}
	in.Names, err = lines(o.Names)
	return err
}

// clients reads those behind the synthetic set and those who were held out.
func (o Options) clients(c configs.Config, in *judge.Input) error {
	population, err := assembly.LoadPrivate(c)
	if err != nil {
		return err
	}
	of := func(list []clients.Client) (out []judge.Client) {
		for _, x := range list {
			labels := x.Labels
			if labels == nil && x.Label != "" {
				labels = slices.Repeat([]string{x.Label}, len(x.Texts))
			}
			out = append(out, judge.Client{ID: x.ID, Texts: x.Texts, Labels: labels})
		}
		return out
	}
	in.Members = of(population.Split(clients.Train))
	in.Controls = of(append(population.Split(clients.Validation), population.Split(clients.Test)...))
	if o.Controls != "" {
		held, err := clients.Read(o.Controls)
		if err != nil {
			return fault.User(err)
		}
		in.Controls = of(held.Clients)
	} else if err := assembly.ExactFigures(population, o.Out); err != nil {
		return err
	}
	if len(in.Members) == 0 {
		return fault.Userf("judge: %s has no train clients, whose words could be repeated", c.Data.Private)
	}
	return nil
}

// lines reads the lines of a file that are not blank; none of the file "".
func lines(file string) (out []string, err error) {
	if file == "" {
		return nil, nil
	}
	raw, err := os.ReadFile(file)
	if err != nil {
		return nil, fault.Userf("judge: %w", err)
	}
	for line := range strings.Lines(string(raw)) {
		if line = strings.TrimSpace(line); line != "" {
			out = append(out, line)
		}
	}
	return out, nil
}
