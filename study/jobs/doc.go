// Package jobs runs the tasks of a grid on a cluster: as an array of Slurm, as jobs of Ray, or as an Indexed Job of
// Kubernetes. It knows no ablation: a task is a number, and the caller says which tasks are done.
//
//	Array ─► template ─► Engine.Submit ─► Engine.Live ─┐
//	  ▲                                                │ gone and not done: lost
//	  └──────────── again, a bounded number of times ◄─┘
//
// All that tasks share is a folder. [Hold] keeps two tasks from doing the same work in it.
package jobs
