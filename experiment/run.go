package experiment

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"popri/datasets"
	"popri/downstream"
	"popri/internal/atomicfile"
	"popri/internal/rng"
	"popri/models"
	"popri/trainer"
)

// Files in a run's folder besides the trainer's.
const (
	UntunedFile = "untuned.parquet"
	EvalFile    = "eval.json"
	ReportFile  = "report.html"
)

// Train runs the rounds that are left and writes the synthetic set.
func (s *Session) Train(ctx context.Context) error {
	if err := s.trainer.Train(ctx); err != nil {
		return err
	}
	_, err := s.trainer.Synthesize(ctx, true, trainer.SyntheticFile)
	return err
}

// Evaluation is eval.json.
type Evaluation struct {
	Results []downstream.Result `json:"results"`
	Clients int                 `json:"test_clients"`
	Seed    uint64              `json:"seed"`
	Steps   int                 `json:"steps"`
}

// Result returns the result with the given key, or nil.
func (e *Evaluation) Result(key string) *downstream.Result {
	for i := range e.Results {
		if e.Results[i].Key == key {
			return &e.Results[i]
		}
	}
	return nil
}

// The keys of the comparators beside ε = 0 and ε = ∞.
const (
	KeyUntuned   = "untuned"
	KeyPOPri     = "popri"
	KeyPublicAll = "public_all"
	KeyInDomain  = "public_domain"
)

// EvalProgress is told what is being trained and measured, from several goroutines; nil functions are left out.
type EvalProgress struct {
	Begin    func(name string, texts int)
	Measured func(name string, p downstream.Point)
	End      func(r downstream.Result)
}

// Evaluate trains the small model on the synthetic set and on what it is compared with, and writes eval.json. One that
// is there is read back.
func (s *Session) Evaluate(ctx context.Context, progress EvalProgress) (*Evaluation, error) {
	path := filepath.Join(s.Dir, EvalFile)
	if e, err := ReadEvaluation(s.Dir); err == nil || !errors.Is(err, fs.ErrNotExist) {
		return e, err
	}
	tuned, err := trainer.ReadSamples(filepath.Join(s.Dir, trainer.SyntheticFile))
	if err != nil {
		return nil, fmt.Errorf("the synthetic set: %w", err)
	}
	untuned, err := s.trainer.Synthesize(ctx, false, UntunedFile)
	if err != nil {
		return nil, err
	}
	sources := []downstream.Source{
		{Key: KeyUntuned, Name: "untuned model's text", Texts: trainer.Texts(untuned)},
		{Key: KeyPOPri, Name: fmt.Sprintf("POPri's text (ε = %g)", s.Config.Privacy.Epsilon), Texts: trainer.Texts(tuned)},
		{Key: KeyPublicAll, Name: "all public text that the generator saw", Texts: datasets.Strings(s.Public.Generator)},
	}
	if len(s.Public.InDomain) > 0 {
		sources = append(sources, downstream.Source{Key: KeyInDomain, Name: "real public text of the clients' domain", Texts: datasets.Strings(s.Public.InDomain)})
	}
	e, err := s.evaluate(ctx, sources, progress)
	if err != nil {
		return nil, err
	}
	b, err := json.MarshalIndent(e, "", "  ")
	if err != nil {
		return nil, err
	}
	return e, atomicfile.WriteBytes(path, append(b, '\n'))
}

func (s *Session) evaluate(ctx context.Context, sources []downstream.Source, progress EvalProgress) (*Evaluation, error) {
	d := s.Config.Downstream
	dir, err := ModelDir(d.Model, models.Device)
	if err != nil {
		return nil, err
	}
	names := map[string]string{downstream.Private: "private text"}
	for _, src := range sources {
		names[src.Key] = src.Name
	}
	suite := downstream.Suite{ModelDir: dir, Population: s.Population, Draws: d.Bootstrap, Options: downstream.Options{Steps: d.Steps, Batch: d.Batch,
		Length: d.Length, LearningRate: d.LearningRate, WeightDecay: d.WeightDecay, Warmup: d.WarmupSteps, EvalEvery: d.EvalEvery,
		Seed: rng.Seed(s.Config.Seed, "downstream"), Compute: computeType(s.Config.Model.DType)},
		End: progress.End,
		Begin: func(key, name string, texts int) {
			if progress.Begin != nil {
				progress.Begin(name, texts)
			}
		},
		Measured: func(key string, p downstream.Point) {
			if progress.Measured != nil {
				progress.Measured(names[key], p)
			}
		}}
	var results []downstream.Result
	err = s.timings.stage("evaluate", func() error {
		results, err = suite.Run(ctx, sources)
		return err
	})
	if err != nil {
		return nil, err
	}
	return &Evaluation{Results: results, Clients: suite.TestClients(), Seed: s.Config.Seed, Steps: d.Steps}, nil
}

// ReadEvaluation reads a run's eval.json.
func ReadEvaluation(dir string) (*Evaluation, error) {
	path := filepath.Join(dir, EvalFile)
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var e Evaluation
	if err := json.Unmarshal(b, &e); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return &e, nil
}
