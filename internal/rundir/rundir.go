// Package rundir names the files of a run's folder. Whatever reads or writes such a file takes its name from here.
// [Files] lists them, and docs/run-folder.md is made from that list.
package rundir

import (
	"fmt"
	"os"
	"path/filepath"
)

// The files and folders at the top. The presence of Stop is the request to stop; its content informs people.
const (
	Config        = "config.yaml"
	Inputs        = "inputs.json"
	Ledger        = "ledger.jsonl"
	Events        = "events.jsonl"
	Latest        = "LATEST"
	Rounds        = "rounds"
	Encoder       = "encoder.safetensors"
	Mixes         = "mixes.parquet"
	Synthetic     = "synthetic.parquet"
	Small         = "small"
	Adapter       = "adapter" // of the generator, of the run or of a round
	Untuned       = "untuned.parquet"
	Untrained     = "untrained.parquet"
	Eval          = "eval.json"
	ProtectedEval = "protected-eval"
	InContext     = "in-context.json"
	Judged        = "for-the-data-owner"
	Report        = "report.html"
	Stop          = "STOP"
	Rungs         = "rungs.json"
	Ablation      = "ablation.json" // of a folder of runs
	Rung          = "rung"
	TensorBoard   = "tensorboard"
	MLflow        = "mlflow.json"
	OTel          = "otel.json"
	Unsafe        = "unsafe_diagnostics"
)

// The files of a round that more than one package opens. Not every method has all of them; other files belong to the
// method.
const (
	Metrics = "metrics.json"
	// Checksums has the hash of each file of a complete round. A resumed run compares them.
	Checksums = "SHA256SUMS"
	Samples   = "samples.parquet" // what the clients were asked about
	Prompts   = "prompts.parquet" // what the samples follow
	Scores    = "scores.parquet"  // the samples' scores
	Pairs     = "pairs.parquet"   // preference pairs of samples
	Chosen    = "chosen.parquet"  // samples that the adapters were trained on
	Written   = "written.parquet" // all texts that the model wrote, where the synthetic set is not just these
	Form      = "form.json"       // what the release says of the form of the clients' texts
	Kinds     = "kinds.json"      // kinds of text that round 1 asks for
	View      = "view.json"       // the samples and the validation texts in two dimensions
	// Selection is what the clients' answer selected: of a population, or of the public texts.
	Selection = "selection.parquet"
	// Question is what clients that are elsewhere are asked.
	Question = "question.safetensors"
	// Announcement is what two aggregators were given of it.
	Announcement = "announcement.bin"
	// Refusals counts the uploads that the aggregators refused.
	Refusals = "refusals.json"
)

// Exists reports whether dir holds a run.
func Exists(dir string) bool { return Has(dir, Config) }

// Has reports whether a file or folder is in dir.
func Has(dir, name string) bool {
	_, err := os.Stat(filepath.Join(dir, name))
	return err == nil
}

// Complete reports whether what the run in dir publishes is there: a synthetic set, or a small model alone.
func Complete(dir string) bool { return Has(dir, Synthetic) || Has(dir, Small) }

// Round is the folder of a round, from 1.
func Round(dir string, round int) string {
	return filepath.Join(dir, Rounds, fmt.Sprintf("%04d", round))
}

// RunsIn are the folders in dir that have a ledger.
func RunsIn(dir string) (runs []string, err error) {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		if run := filepath.Join(dir, e.Name()); e.IsDir() && Has(run, Ledger) {
			runs = append(runs, run)
		}
	}
	return runs, err
}

// IsSmall reports whether a model's folder is named as a run's small model.
func IsSmall(model string) bool { return filepath.Base(filepath.Clean(model)) == Small }
