package scoring

import (
	"fmt"
	"strings"

	"popri/internal/numeric"
	"popri/model/embedding"
	"popri/scoring/query"
)

// Ballot asks which samples most clients would choose: each client gives one vote, to the sample nearest to one of its
// texts by cosine. The histogram stays exact and secret; what is released is a list of its largest counts
// (query.Ranking).
type Ballot struct {
	facts
	samples              embedding.Matrix
	round, domain, picks int
}

const ballots = "ballot/"

// NewBallot prepares the question of a round about samples; key identifies them. Clients take their texts in turn: in
// round t, a client votes by its text number t modulo the number of its texts. Picks of the domain largest counts may
// be released.
func NewBallot(samples embedding.Matrix, round, domain, picks int, key string) (Ballot, error) {
	if err := checkSamples(samples); err != nil {
		return Ballot{}, err
	}
	if samples.Rows < 2 || round < 1 || domain < 1 || picks < 1 {
		return Ballot{}, fmt.Errorf("scoring: a ballot of round %d for %d of the largest %d of %d samples", round,
			picks, domain, samples.Rows)
	}
	one := facts{BallotName(domain, picks), key, 1, true} // a client moves one count by 1
	return Ballot{one, samples, round, domain, picks}, nil
}

// BallotName is the name of a ballot: "ballot/cosine 30 of 300".
func BallotName(domain, picks int) string {
	return fmt.Sprintf("%s%s %d of %d", ballots, CosineMetric, picks, domain)
}

// BallotNamed reports whether a question's name is the name of a [Ballot].
func BallotNamed(name string) bool { return strings.HasPrefix(name, ballots) }

// Len implements query.Question.
func (b Ballot) Len() int { return b.samples.Rows }

// Limits implements query.Ranking.
func (b Ballot) Limits() (domain, picks int) { return b.domain, b.picks }

// Counts implements query.Ranking. A client without texts does not vote.
func (b Ballot) Counts(clients query.Clients) ([]int64, error) {
	if !clients.HasTexts() {
		return nil, fmt.Errorf("scoring: votes need the clients' texts, and their means alone were kept")
	}
	voters := embedding.Matrix{Dim: clients.Texts.Dim}
	for i := range clients.Clients {
		n := clients.Offsets[i+1] - clients.Offsets[i]
		if n == 0 {
			continue
		}
		voters.Data = append(voters.Data, clients.Texts.Row(clients.Offsets[i]+(b.round-1)%n)...)
		voters.Rows++
	}
	if i := numeric.NotFinite(voters.Data); i >= 0 {
		return nil, fmt.Errorf("scoring: a text of the clients has value %g", voters.Data[i])
	}
	counts := make([]int64, b.samples.Rows)
	if voters.Rows == 0 {
		return counts, nil
	}
	nearest, err := Nearest(b.samples, voters, CosineMetric, 1)
	for _, choice := range nearest {
		counts[choice[0]]++
	}
	return counts, err
}
