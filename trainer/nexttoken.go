package trainer

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"popri/internal/numeric"
	"popri/internal/rng"
	"popri/model/lm"
	"popri/model/tensor"
)

// NextToken is the loss of language models: the mean over a batch's N counted tokens of −log π(x_t | x_<t), in nats.
// For a model that classifies, it is the cross-entropy of the rows' labels.
//
//	L = −1/N Σ_rows Σ_t log π(x_t | x_<t)
type NextToken struct {
	Model     *lm.Model
	Adapter   lm.Adapter // whose weights are trained; nil trains the model's own
	Optimizer *Optimizer // has the parameters
	// Rows returns the rows with these indices.
	Rows func(indices []int) ([]lm.Row, error)
	// Parts returns the number of passes for a batch with the given number of rows; nil takes one pass.
	Parts func(rows int) int
	// ByLength puts the longest rows of a batch first: rows of one length in a pass need little padding, and shorter
	// ones fit into the memory that longer ones leave.
	ByLength bool
	// Dropout is the probability with which activations are set to zero, where GPT-2 does; 0 for none. The masks follow from
	// Seed, the number of the update and the pass.
	Dropout float64
	Seed    uint64
	// Done receives each update with its loss, the mean before the update.
	Done func(u Update, loss float64)
}

// InMemory serves examples that are all in memory.
func InMemory[T any](list []T) func(indices []int) ([]T, error) {
	return func(indices []int) ([]T, error) { return numeric.Pick(list, indices), nil }
}

// InParts divides a batch into n passes, at most one a row.
func InParts(n int) func(rows int) int { return func(rows int) int { return max(1, min(n, rows)) } }

// LonePass is how many examples a pass has that has a device to itself, of whose memory nothing is known.
const LonePass = 8

// PassSize is how many examples of a batch a forward pass has where nothing else is asked for, if each has the given
// tokens and needs the given bytes. A CPU computes passes side by side, one a thread: with a few hundred tokens, a pass
// takes little of its time between operations and still fits into the caches, and a batch has eight passes at least for
// as many threads. A GPU is idle with small ones: its passes fill half of its memory, all that run at a time.
func PassSize(bytes, tokens int64, batch int) int {
	const passTokens, passes = 768, 8
	switch memory := tensor.GPUMemory(); {
	case tensor.DefaultDevice() == tensor.CPU:
		return max(1, min(passTokens/int(max(1, tokens)), batch/passes))
	case memory > 0 && bytes > 0:
		return int(min(1024, max(1, memory/2/int64(tensor.AtOnce())/bytes)))
	}
	return LonePass
}

// PassesOf divides a batch into passes of at most n rows.
func PassesOf(n int) func(rows int) int { return func(rows int) int { return (rows + n - 1) / n } }

// Step does one update on rows at learning rate lr and returns the mean loss before it: a loop of one's own, without
// batches and checkpoints.
func (o *NextToken) Step(rows []lm.Row, lr float64) (loss float64, u Update, err error) {
	b, err := o.batch(rows, func(_ Update, l float64) { loss = l })
	if err != nil {
		return 0, u, err
	}
	u, err = o.Optimizer.Update(b, lr)
	return loss, u, err
}

// Batch implements [Objective]. Another number of passes gives another rounding; the same number gives the same bits on
// any number of threads.
func (o *NextToken) Batch(_ context.Context, indices []int) (Batch, error) {
	rows, err := o.Rows(indices)
	if err != nil {
		return Batch{}, err
	}
	if o.ByLength {
		sortByLength(rows, indices)
	}
	return o.batch(rows, o.Done)
}

// batch is an update on rows. done, if not nil, receives its loss.
func (o *NextToken) batch(rows []lm.Row, done func(Update, float64)) (Batch, error) {
	if o.Adapter != nil {
		if err := o.Model.Freeze(); err != nil {
			return Batch{}, err
		}
	}
	leaves, free, err := o.Model.Leaves(o.Optimizer.Params)
	if err != nil {
		return Batch{}, err
	}
	b := Batch{Examples: len(rows), Tokens: int64(lm.Tokens(rows)), What: "row", Free: free}
	total, parts := o.Model.Counted(rows), 1
	if o.Parts != nil {
		parts = o.Parts(len(rows))
	}
	losses := make([]float64, parts)
	pass := func(from, to int, loss *float64, drop lm.Dropout) Pass {
		return func(s *tensor.Scope) (grads []tensor.Tensor, err error) {
			*loss, grads = o.Model.LossGradients(s, rows[from:to], o.Adapter, leaves, total, drop)
			if !numeric.Finite(*loss) {
				return nil, fmt.Errorf("the loss is %g", *loss)
			}
			return grads, nil
		}
	}
	for i := range parts {
		b.Passes = append(b.Passes, pass(i*len(rows)/parts, (i+1)*len(rows)/parts, &losses[i], o.dropout(i)))
	}
	b.Alone = func(i int) Pass { return pass(i, i+1, new(float64), lm.Dropout{}) }
	b.Done = func(u Update) {
		if done != nil {
			loss := 0.0
			for _, l := range losses {
				loss += l
			}
			done(u, loss)
		}
	}
	return b, nil
}

// dropout is the dropout of a pass of the next update.
func (o *NextToken) dropout(pass int) lm.Dropout {
	if o.Dropout == 0 {
		return lm.Dropout{}
	}
	return lm.Dropout{Rate: o.Dropout,
		Seed: rng.Seed(o.Seed, "dropout", strconv.Itoa(o.Optimizer.adam.Step), strconv.Itoa(pass))}
}

// sortByLength puts the longest rows first, and their indices with them.
func sortByLength(rows []lm.Row, at []int) {
	sorted, from := slices.Clone(rows), slices.Clone(at)
	for i, k := range numeric.SortedIndices(len(rows),
		func(a, b int) int { return len(sorted[b].Tokens) - len(sorted[a].Tokens) }) {
		rows[i], at[i] = sorted[k], from[k]
	}
}
