// Package rounds runs the rounds of a run: stages, checkpoints, resumption, events. The [Method] says what a round
// does.
//
//	restore the newest complete round
//	for each round that is left:  method.Round ─► metrics.json ─► LATEST
//	method.Product ─► synthetic.parquet
//
// A round is complete when LATEST names it. A run that is resumed in the middle of a round uses the finished stages'
// files.
package rounds
