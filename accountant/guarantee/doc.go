// Package guarantee says in words what a run's privacy guarantee covers and what it does not. Every page and every
// command that speaks about the guarantee takes its sentences from here, so that no two of them disagree.
//
//	facts, err := guarantee.Read(dir)   // from ledger, configuration, inputs and evaluation
//	facts.Statement()                   // what is guaranteed, to whom
//	facts.Warnings()                    // what the guarantee does not cover
//	facts.Headline()                    // one line for a terminal
package guarantee
