package evaluator

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"popri/configs"
	"popri/datasets"
	"popri/datasets/clients"
	"popri/eval/downstream"
	"popri/internal/atomicfile"
	"popri/internal/fault"
	"popri/internal/parquetio"
	"popri/internal/rows"
	"popri/internal/rundir"
	"popri/methods/sampling"
	"popri/model/lm"
	"popri/model/shipped"
	"popri/run/assembly"
	"popri/run/evaluation"
	"popri/run/tracking"
	"popri/show/datacard"
)

// TextsOptions say how any texts are evaluated.
type TextsOptions struct {
	Options
	// Out is the folder for eval.json, "" for none. Trackers (trackers.Names) show its figures; they need Out.
	Out      string
	Trackers []string
	Warn     func(text string) // called with one sentence for each tracker that fails; may be nil
}

// Texts trains the small model of the configuration on any texts, and tests it on the test clients of data.private
// with ε = 0 and ε = ∞. A classification has ε = 0 only if data.public names files. File holds the texts as Parquet,
// JSON lines or plain lines. A folder for the figures must not be a run's folder.
func Texts(ctx context.Context, c configs.Config, file string, o TextsOptions) (*evaluation.Outcome, error) {
	if err := o.checkOut(); err != nil {
		return nil, err
	}
	if _, err := assembly.ModelDir(c.Downstream.Model, shipped.Device); err != nil {
		return nil, err
	}
	src, population, err := opened(c, file)
	if err != nil {
		return nil, err
	}
	for _, split := range clients.Splits {
		if len(population.Split(split)) == 0 {
			return nil, fault.Userf("%s has no %s clients", c.Data.Private, split)
		}
	}
	public, err := labelledPublic(c)
	if err != nil {
		return nil, err
	}
	var t *tracking.Listener
	if o.Out != "" {
		if err := os.MkdirAll(o.Out, 0o755); err != nil {
			return nil, fault.Userf("the folder for the figures cannot be made: %w", err)
		}
		o.Small = filepath.Join(o.Out, rundir.Small)
		t = tracking.OpenTexts(o.Trackers, o.Out, c, o.Warn)
	}
	t.Begin(Stage, 0)
	e, err := Compare(ctx, c, population, public, o.Out, "", []downstream.Source{src}, o.Options)
	if err == nil && o.Out != "" {
		err = e.Write(o.Out)
	}
	if t.Fail(err) == nil {
		t.End()
		t.Evaluated(e)
	}
	t.Close()
	return e, err
}

// opened reads what is evaluated and the clients, in which nothing is missing that the configuration needs.
func opened(c configs.Config, file string) (src downstream.Source, population *clients.Population, err error) {
	if err := assembly.Ready(c); err != nil {
		return src, nil, err
	}
	if src, err = readSource(c, file); err != nil {
		return src, nil, fault.Userf("%w", err)
	}
	if population, err = assembly.LoadPrivate(c); err == nil {
		err = assembly.CheckLabels(c, population)
	}
	return src, population, err
}

// labelledPublic is the public text of a classification's ε = 0 point: from the files of data.public; none otherwise.
func labelledPublic(c configs.Config) ([]datasets.Text, error) {
	if !classifies(c) || !assembly.PublicIsFile(c) {
		return nil, nil
	}
	read, err := assembly.LoadPublic(c)
	return read.Generator, err
}

// checkOut refuses a folder that holds other figures or cannot be written to.
func (o *TextsOptions) checkOut() error {
	if o.Out == "" {
		return nil
	}
	if rundir.Exists(o.Out) {
		return fault.Userf("%s holds a run, which has an %s of its own: name another folder", o.Out, rundir.Eval)
	}
	if rundir.Has(o.Out, rundir.Eval) {
		return fault.Userf("%s holds the figures of other texts: name another folder",
			filepath.Join(o.Out, rundir.Eval))
	}
	return fault.User(atomicfile.CheckFolder(o.Out))
}

// textsFile is the file of texts in a folder that popri data push-ready made, else the file itself.
func textsFile(file string) string {
	if rundir.Has(file, datacard.Data) {
		return filepath.Join(file, datacard.Data)
	}
	return file
}

// readSource reads what is evaluated: a folder is a trained model, which is tested as it is; else it reads the texts of
// a file, with labels for a classification. A file of a run's own samples may hold empty ones, which are left out as in
// the run's evaluation; elsewhere an empty text is an error.
func readSource(c configs.Config, file string) (downstream.Source, error) {
	src := downstream.Source{Key: evaluation.KeyText, Name: file}
	file = textsFile(file)
	if info, err := os.Stat(file); err == nil && info.IsDir() {
		if classifies(c) {
			return src, fmt.Errorf("%s is a folder, and downstream.task is %q: only texts are evaluated by it", file,
				c.Downstream.Task)
		}
		src.Model = file
		shape, err := lm.Inspect(file)
		return src, cmp.Or(err, checkContext(c, "in "+file, shape))
	}
	if strings.HasSuffix(strings.ToLower(file), ".parquet") {
		f, err := parquetio.Open(file)
		if err != nil {
			return src, err
		}
		own := f.Has("sample_index") && f.Has("finish") && f.Has("ids")
		if err := f.Close(); err != nil {
			return src, err
		}
		if own {
			samples, err := rows.Read[sampling.Row](file)
			unlabelled := func(r sampling.Row) bool { return r.Text != "" && r.Label == "" }
			if i := slices.IndexFunc(samples, unlabelled); classifies(c) && i >= 0 {
				return src, fmt.Errorf("%s: row %d has no label: its run had generate.by_label=false", file, i)
			}
			return Source(c, src.Key, src.Name, samples), err
		}
	}
	read := datasets.ReadPublic
	if classifies(c) {
		read = datasets.ReadLabelled
	}
	texts, err := read(file)
	src.Texts, src.Labels = datasets.Strings(texts), datasets.Labels(texts)
	return src, err
}
