// Package client is what a machine near the data does, in pure Go: it answers the questions that two aggregators
// announce, for one client ([Responder]) or for each client of a file ([Group]), with a share of the client's vector
// for each aggregator. The program that uses it must have a [Trainer] for questions about updates.
package client
