package clients

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sort"
	"strconv"

	"gonum.org/v1/gonum/stat/distuv"

	"popri/internal/fault"
	"popri/internal/rng"
)

// The kinds of a partition.
const (
	IID       = "iid"       // each text goes to a client drawn uniformly
	Dirichlet = "dirichlet" // each label's texts go to clients in shares drawn from a Dirichlet distribution
)

// Partition makes clients of texts that have none, as federated learning is simulated on data of one owner.
//
// Dirichlet is the label skew of Yurochkin et al. (2019) and Li et al. (2022): for each label k, the shares of the n
// clients are p_k ~ Dir_n(α), and a text of the label goes to client j with probability p_kj. With α → 0 a label is
// with one client, with α → ∞ the partition is uniform. If the texts have splits, each split has clients of its own,
// with the same shares.
type Partition struct {
	Kind  string  `json:"kind"`
	Alpha float64 `json:"alpha,omitempty"` // the concentration α, above 0; usually 0.1 to 1
}

// mostShares bounds the shares that are held, labels times clients: 256 MiB.
const mostShares = 32 << 20

func (p Partition) validate(clients int) error {
	switch {
	case p.Kind == "" && p.Alpha != 0:
		return fault.Userf("alpha goes with a Dirichlet partition")
	case p.Kind == "":
		return nil
	case p.Kind != IID && p.Kind != Dirichlet:
		return fault.Userf("the partition is %q, want %s or %s", p.Kind, IID, Dirichlet)
	case clients < 1:
		return fault.Userf("a partition needs the number of clients")
	case p.Kind == Dirichlet && !(p.Alpha > 0):
		return fault.Userf("alpha is %g, want more than 0", p.Alpha)
	case p.Kind == IID && p.Alpha != 0:
		return fault.Userf("alpha goes with a Dirichlet partition")
	}
	return nil
}

// assigner draws the client of one text after the other.
type assigner struct {
	Partition
	n, width int
	seed     uint64
	labels   map[string]*labelShares
}

// labelShares has the cumulative shares of the clients in one label's texts, none if they are uniform.
type labelShares struct {
	random     *rand.Rand
	cumulative []float64
}

func newAssigner(p Partition, n int, seed uint64) *assigner {
	return &assigner{p, n, len(strconv.Itoa(n - 1)), seed, map[string]*labelShares{}}
}

func (a *assigner) client(label string) (string, error) {
	if a.Kind == IID {
		label = ""
	} else if label == "" {
		return "", errors.New("label is missing, which the partition needs")
	}
	shares, ok := a.labels[label]
	if !ok {
		if (len(a.labels)+1)*a.n > mostShares {
			return "", fmt.Errorf("more than %d labels for %d clients: is it the column of labels?", len(a.labels), a.n)
		}
		shares = &labelShares{random: rng.New(a.seed, "partition", a.Kind, label)}
		if a.Kind == Dirichlet {
			shares.cumulative = dirichlet(shares.random, a.Alpha, a.n)
		}
		a.labels[label] = shares
	}
	at := 0
	if shares.cumulative == nil {
		at = shares.random.IntN(a.n)
	} else {
		u := shares.random.Float64() * shares.cumulative[a.n-1]
		at = sort.Search(a.n-1, func(i int) bool { return shares.cumulative[i] > u })
	}
	return fmt.Sprintf("client-%0*d", a.width, at), nil
}

// dirichlet draws shares from the symmetric Dirichlet distribution and sums them up: gamma variates over their sum.
// Where a small α makes all of them vanish, one client has the label.
func dirichlet(random *rand.Rand, alpha float64, n int) []float64 {
	gamma := distuv.Gamma{Alpha: alpha, Beta: 1, Src: random}
	shares := make([]float64, n)
	for i := range shares {
		shares[i] = gamma.Rand()
	}
	if slices.Max(shares) == 0 {
		shares[random.IntN(n)] = 1
	}
	for i := range shares[1:] {
		shares[i+1] += shares[i]
	}
	return shares
}
