// Package local is what the simulation's clients compute with a language model: train a small one on their own texts
// ([Learners]), vote for tokens ([Teachers]) or count the tokens of their texts ([Counter]). It holds the train clients'
// texts, and hands what it computes to package fedsim, which clips it, adds it up and adds noise. Clients elsewhere train
// as the simulation's do ([Learner]).
package local
