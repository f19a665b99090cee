package fedsim

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"

	"popri/datasets/clients"
	"popri/internal/numeric"
	"popri/model/embedding"
	"popri/scoring/query"
)

// Embedded are clients of the simulation whose texts are embedded ([Embed]). They answer questions about embeddings
// ([query.Query]).
type Embedded struct{ query.Clients }

// N implements Clients.
func (e Embedded) N() int { return e.Clients.Clients }

// CanAnswer implements Clients.
func (e Embedded) CanAnswer(q query.Question) error {
	asked, ok := q.(query.Query)
	if !ok {
		return fmt.Errorf("fedsim: the clients cannot answer %s", q.Name())
	}
	return e.canVote(q, asked.NeedsTexts())
}

func (e Embedded) canVote(q query.Question, needsTexts bool) error {
	if needsTexts && !e.HasTexts() {
		return fmt.Errorf("fedsim: %s needs each text's embedding, and only the clients' means were kept", q.Name())
	}
	return nil
}

// Sum implements Clients: all vectors at once.
func (e Embedded) Sum(r Round) (Sum, error) {
	sum, err := r.Query.(query.Query).Sum(e.Select(r.Cohort))
	if err != nil {
		return Sum{}, err
	}
	return Sum{r.Grid.RoundAll(sum), e.N()}, nil
}

// Rounded implements Rounding.
func (e Embedded) Rounded(r Round) ([]int64, error) {
	q, which := r.Query.(query.Query), r.Cohort
	workers := max(1, min(runtime.GOMAXPROCS(0), len(which)))
	sums, errs := make([][]int64, workers), make([]error, workers)
	var done sync.WaitGroup
	for w := range workers {
		done.Go(func() {
			sums[w] = make([]int64, q.Len())
			for k := w; k < len(which) && errs[w] == nil; k += workers {
				v, err := q.Vector(e.Clients, which[k])
				if err == nil {
					err = r.Grid.AddRounded(sums[w], v, q.Bound())
				}
				if err != nil {
					errs[w] = fmt.Errorf("client %d: %w", which[k], err)
				}
			}
		})
	}
	done.Wait()
	for _, s := range sums[1:] {
		add(sums[0], s)
	}
	return sums[0], errors.Join(errs...)
}

// Ballots are embedded clients who vote for the nearest samples ([query.Ranking]).
type Ballots struct{ Embedded }

// CanAnswer implements Clients.
func (b Ballots) CanAnswer(q query.Question) error {
	ranking, ok := q.(query.Ranking)
	if !ok {
		return fmt.Errorf("fedsim: the clients cannot answer %s", q.Name())
	}
	return b.canVote(q, ranking.NeedsTexts())
}

// Sum implements Clients: the number of votes for each sample.
func (b Ballots) Sum(r Round) (Sum, error) {
	counts, err := r.Query.(query.Ranking).Counts(b.Embedded.Clients)
	return Sum{counts, b.N()}, err
}

// Embed encodes the clients' texts, once, in blocks of whole clients. With texts, it keeps each text's embedding;
// otherwise only the clients' means stay in memory. The result is private data. Embed stops between two blocks when ctx
// ends. It calls tell, if not nil, with the number of clients done.
func Embed(ctx context.Context, train []clients.Client, encoder embedding.Encoder, texts bool,
	tell func(done, total int)) (query.Clients, error) {
	const block = 1024 // texts: some seconds of work for a large encoder on few cores
	n, dim := len(train), encoder.Dim()
	all := query.Clients{Means: query.Means{Clients: n, Dim: dim, Data: make([]float64, 0, n*dim)}}
	if texts {
		all.Texts.Dim, all.Offsets = dim, []int{0}
	}
	for done := 0; done < n; {
		if err := ctx.Err(); err != nil {
			return query.Clients{}, err
		}
		var some []string
		offsets := []int{0}
		next := done
		for next < n && (next == done || len(some)+len(train[next].Texts) <= block) {
			some = append(some, train[next].Texts...)
			offsets = append(offsets, len(some))
			next++
		}
		rows, err := encoder.Encode(some)
		if err != nil {
			return query.Clients{}, fmt.Errorf("fedsim: encode the texts of %d clients: %w", next-done, err)
		}
		means, err := query.MeanEmbeddings(rows, offsets)
		if err != nil {
			return query.Clients{}, fmt.Errorf("fedsim: %w", err)
		}
		all.Data = append(all.Data, means.Data...)
		if texts {
			for _, end := range offsets[1:] {
				all.Offsets = append(all.Offsets, all.Texts.Rows+end)
			}
			all.Texts.Data, all.Texts.Rows = append(all.Texts.Data, rows.Data...), all.Texts.Rows+rows.Rows
		}
		if done = next; tell != nil {
			tell(done, n)
		}
	}
	if i := numeric.NotFinite(all.Data); i >= 0 {
		return query.Clients{}, fmt.Errorf("fedsim: encoder %s gives %g for a text of client %d", encoder.Name(),
			all.Data[i], i/dim)
	}
	return all, nil
}

// Label notes the labels of the clients' texts, which [Embed] kept, by their numbers in a list of classes. A text whose
// label is none of them, or that has none, gets -1: it answers no question about labels.
func Label(embedded *query.Clients, train []clients.Client, classes []string) {
	embedded.Labels = numeric.Map(clients.Labels(train),
		func(label string) int32 { return int32(slices.Index(classes, label)) })
}
