// Package experiment puts a run together from its configuration: data, models, encoder, federation, ledger, trainer,
// evaluation and report. Commands parse flags and call it.
//
//	s, err := experiment.Open(ctx, options)   // everything is read and checked, the run's folder is locked
//	s.Train(ctx)                              // rounds and the synthetic set
//	s.Evaluate(ctx, options)                  // small models on test clients
//	experiment.WriteReport(dir)               // report.html
//
// Beside whole runs there are [Ablate], a grid of them, [Judge], the evaluation of any text, and [Prefer], preference
// training on anybody's pairs.
package experiment
