// Package trainer runs POPri's rounds: prompts of public text, samples of the tuned model, the clients' noised scores,
// preference pairs, DPO steps, a checkpoint; and at the end the synthetic set.
//
// It never sees a client's text. Scores come through [Clients], whose one method returns what was already noised and
// paid for; everything after that is post-processing.
//
// Every stage leaves a file in the round's folder, written whole or not at all, and every random number is derived from
// the run's seed and the stage's name. A run that was killed goes on from the files it finds and ends with the same
// bytes as one that was not.
package trainer
