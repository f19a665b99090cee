// Package rundir names the files of a run's folder. Whatever reads or writes such a file takes its name from here.
//
//	RUN/
//	  config.yaml          every key with its value; its presence makes the folder a run's
//	  inputs.json          what the run began with, for --resume to compare
//	  ledger.jsonl         the privacy ledger
//	  events.jsonl         every event, one object a line
//	  LATEST               names the newest complete round
//	  rounds/0001/         a round
//	  synthetic.parquet    the product
//	  eval.json            small models on the test clients
//	  report.html          the page
//	  STOP                 asks the run to stop after its round; usually not there
//	  tensorboard/         the figures for TensorBoard (--report-to tensorboard)
//	  mlflow.json          the run's id on an MLflow server (--report-to mlflow)
package rundir

import (
	"fmt"
	"os"
	"path/filepath"
)

// The files and folders at the top.
const (
	Config    = "config.yaml"
	Inputs    = "inputs.json"
	Ledger    = "ledger.jsonl"
	Events    = "events.jsonl"
	Latest    = "LATEST"
	Rounds    = "rounds"
	Synthetic = "synthetic.parquet"
	Mixes     = "mixes.parquet"   // what the product was chosen from (synthetic.mix)
	Untuned   = "untuned.parquet" // the untuned model's text, a comparator
	Eval      = "eval.json"
	Report    = "report.html"
	Unsafe    = "unsafe_diagnostics" // figures without noise, if the user asked for them
	// Encoder embeds the clients' texts where they are, if they are elsewhere (fed.collect=shards).
	Encoder = "encoder.safetensors"
	// Stop asks the run to stop after the round under way. Its presence is the request; its content informs people.
	Stop = "STOP"
	// Rungs has the measurements of an adaptive ablation, and the folder Rung the files of one under way.
	Rungs = "rungs.json"
	Rung  = "rung"
	// TensorBoard, MLflow and OTel belong to the trackers of these names.
	TensorBoard = "tensorboard"
	MLflow      = "mlflow.json"
	OTel        = "otel.json"
)

// The files of a round that more than one package opens. Not every method has all of them; other files belong to the
// method.
const (
	Metrics = "metrics.json"
	Samples = "samples.parquet" // what the clients were asked about
	Prompts = "prompts.parquet" // what the samples follow
	Scores  = "scores.parquet"  // the samples' scores
	Pairs   = "pairs.parquet"   // preference pairs of samples
	Chosen  = "chosen.parquet"  // samples that the adapters were trained on
	Written = "written.parquet" // all texts that the model wrote, where the product is not just these
	// Selection is what the clients' answer selected: of a population, or of the public texts.
	Selection = "selection.parquet"
	// Question is what clients that are elsewhere are asked.
	Question = "question.safetensors"
)

// Exists reports whether dir holds a run.
func Exists(dir string) bool { return Has(dir, Config) }

// Has reports whether a file or folder is in dir.
func Has(dir, name string) bool {
	_, err := os.Stat(filepath.Join(dir, name))
	return err == nil
}

// Round is the folder of a round, from 1.
func Round(dir string, round int) string {
	return filepath.Join(dir, Rounds, fmt.Sprintf("%04d", round))
}
