// Package run is one run, from its configuration to its texts and figures: open, train, evaluate. Package assembly
// makes the parts from the configuration; commands and studies call this package.
//
//	s, err := run.Open(ctx, options)   // everything is read and checked, the run's folder is locked
//	s.Train(ctx)                       // rounds and the synthetic set
//	s.Evaluate(ctx, options)           // small models on test clients, eval.json
//	reporting.Write(dir)               // report.html
//
// The packages below it each have a part of that: what a run begins with (inputs), what it reports while it continues
// (tracking), the texts and small models of its evaluation (evaluator, evaluation), clients behind two aggregators
// (federated), and what is made of its folder (reporting, auditing). None of them knows a session.
package run
