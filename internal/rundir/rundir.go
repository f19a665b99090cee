// Package rundir names the files of a run's folder. Code that reads or writes such a file takes its name
// from here. docs/run-folder.md has the same list.
//
//	RUN/
//	  config.yaml          every setting with its value, and the versions of program and libraries; marks the folder as a run's
//	  inputs.json          settings and hashes at the start; --resume compares them
//	  ledger.jsonl         the releases with their noise, and the running total; it only grows (its head: ledger.jsonl.head)
//	  events.jsonl         every event, one object a line
//	  LATEST               names the newest complete round
//	  rounds/0001/         prompts, samples, scores, pairs, selection (Parquet), release.bin (hot_pate: one for each vote),
//	                       adapter/ (PEFT), optimizer.safetensors, steps.jsonl, metrics.json, view.json, kinds.json, form.json,
//	                       reference.safetensors, written.parquet, SHA256SUMS
//	  encoder.safetensors  embeds the texts of remote clients (fed.clients above 0)
//	  mixes.parquet        the sets from which validation clients choose (synthetic.mix=validated)
//	  synthetic.parquet    the synthetic set: weighted public text (finish=public) and the trained model's text
//	  small/               the small model, trained on the synthetic set or by the clients: a Hugging Face folder with a model card
//	  untuned.parquet      text of the untuned model, for comparison
//	  untrained.parquet    text of the untuned model for the synthetic set's prompts and weights, for comparison
//	  eval.json            small models on private test clients
//	  in-context.json      the synthetic set as demonstrations for a language model (popri eval --task in-context)
//	  protected-eval/      noised accuracies of protected test clients, with their own ledger (popri eval --protect-test)
//	  for-the-data-owner/  figures of popri judge without noise; not to be published
//	  report.html          the report in one file, with every sample (many samples: report-texts.html)
//	  ended.json           says that trainer.max_hours ended the rounds
//	  STOP                 made by popri watch or by hand: the run ends after its round, and --resume continues
//	  rungs.json, rung/    figures and files of an adaptive ablation
//	  tensorboard/         figures for TensorBoard (--report-to tensorboard)
//	  mlflow.json          the run's identifier on an MLflow server (--report-to mlflow)
//	  otel.json            the identifier of its trace (--report-to otel)
//	  unsafe_diagnostics/  figures without noise (privacy.unsafe_diagnostics)
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
	Untuned       = "untuned.parquet"
	Untrained     = "untrained.parquet"
	Eval          = "eval.json"
	ProtectedEval = "protected-eval"
	InContext     = "in-context.json"
	Judged        = "for-the-data-owner"
	Report        = "report.html"
	Ended         = "ended.json"
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
	Written   = "written.parquet" // all texts that the model wrote, where the product is not just these
	Form      = "form.json"       // what the release tells of the form of the clients' texts
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

// Complete reports whether the product of the run in dir is there: a synthetic set, or a small model alone.
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
