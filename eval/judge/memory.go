package judge

import (
	"cmp"
	"maps"
	"math"
	"slices"

	"gonum.org/v1/gonum/blas/blas32"
	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/combin"

	"popri/internal/numeric"
	"popri/internal/parallel"
	"popri/model/embedding"
)

// Memory says what of the members' words stands in the synthetic set, with the same for controls.
type Memory struct {
	WordsLooked int     `json:"words_looked"` // first words of each client by which the groups were compared
	Runs        []Runs  `json:"runs"`
	Found       []Found `json:"found"` // runs of members that chance does not explain
	// Nearer is the fraction of the synthetic set's texts whose nearest text of a client is a member's, where as many members as
	// controls are asked; 0.5 is chance. Its interval is over clients.
	Nearer   float64    `json:"nearer"`
	NearerCI [2]float64 `json:"nearer_ci"`
	// Copies are the synthetic set's texts whose nearest text of a client is nearer than any two texts of different controls
	// are, without those that are public texts.
	Copies []Copy `json:"copies"`
}

// Runs counts clients with a run of Words words in common with the synthetic set, which public text does not have.
type Runs struct {
	Words    int     `json:"words"` // at least
	Members  int     `json:"members"`
	Controls int     `json:"controls"`
	P        float64 `json:"p"` // probability of as many members or more, if both groups were alike (Fisher's exact test)
}

// Found is a run of words of a member in the synthetic set.
type Found struct {
	Client   string  `json:"client"`
	Words    int     `json:"words"`
	Expected float64 `json:"expected"` // members with a run of this length, by the controls
	Text     string  `json:"text"`
	Product  int     `json:"product_row"`
}

// Copy is a text of the synthetic set that is near a member's.
type Copy struct {
	Client  string  `json:"client"`
	Cosine  float64 `json:"cosine"`
	Text    string  `json:"text"`
	Product int     `json:"product_row"`
}

// expected is the number of members with a run of that many words that is not called chance.
const expected = 0.01

// mostFound bounds what is listed.
const mostFound = 50

func (in Input) memory(found runs, e embedded) Memory {
	m := Memory{WordsLooked: found.most}
	count := func(list []run, least int) int {
		return numeric.Sum(list, func(r run) int { return one(r.Words >= least) })
	}
	for _, least := range []int{8, 12, 16, 24, 32, 48} {
		k, c := count(found.members, least), count(found.controls, least)
		m.Runs = append(m.Runs, Runs{least, k, c, fisher(k, len(in.Members), c, len(in.Controls))})
	}
	tail := newTail(found.controls)
	for i, r := range found.whole {
		chance := tail.chance(r.Words) * float64(len(in.Members)) * found.times[i] // in more words, chance finds more
		if r.Words > 0 && chance < expected {
			m.Found = append(m.Found, Found{in.Members[i].ID, r.Words, chance, r.Text, r.Product})
		}
	}
	slices.SortStableFunc(m.Found, func(a, b Found) int { return b.Words - a.Words })
	m.Found = m.Found[:min(len(m.Found), mostFound)]
	in.near(e, &m)
	return m
}

// tail is how likely a run of a length is for a control: the fraction of controls with a run at all, times an exponential
// fall of its length beyond the least one. One more control with a run of two words more than the least is added, so
// that groups without runs say that runs are rare and not that they are impossible.
type tail struct{ fraction, mean float64 }

func newTail(controls []run) tail {
	const added = 2
	n, excess := 1.0, float64(added)
	for _, r := range controls {
		if r.Words > 0 {
			n++
			excess += float64(r.Words - leastRun)
		}
	}
	return tail{n / float64(len(controls)+1), max(1, excess/n)}
}

func (t tail) chance(length int) float64 {
	return t.fraction * math.Exp(-float64(max(0, length-leastRun))/t.mean)
}

// fisher is the probability of at least k of n members among k+c clients with a property, drawn from n+m clients.
func fisher(k, n, c, m int) float64 {
	logChoose := func(n, k int) float64 { return combin.LogGeneralizedBinomial(float64(n), float64(k)) }
	total, p := k+c, 0.0
	for i := k; i <= min(n, total); i++ {
		if total-i <= m {
			p += math.Exp(logChoose(n, i) + logChoose(m, total-i) - logChoose(n+m, total))
		}
	}
	return min(1, p)
}

// near compares the distances of the synthetic set's texts from members' with those from controls'.
func (in Input) near(e embedded, m *Memory) {
	// As many members as controls, or the other way round: with more clients, one of them is nearer by chance.
	members, controls := distinct(e.memberOf), distinct(e.controlOf)
	n := min(len(members), len(controls))
	member, control := numeric.Set(members[:n]), numeric.Set(controls[:n])
	product := e.product.Slice(0, min(e.product.Rows, mostTexts))
	a, atA := nearest(product, e.members, func(_, row int) bool { return member[e.memberOf[row]] })
	b, atB := nearest(product, e.controls, func(_, row int) bool { return control[e.controlOf[row]] })
	won, of := map[int]float64{}, map[int]float64{} // by client
	for i := range a {
		client := e.memberOf[atA[i]]
		if b[i] > a[i] {
			client = -1 - e.controlOf[atB[i]]
		}
		of[client]++
		switch {
		case a[i] > b[i]:
			won[client]++
		case a[i] == b[i]:
			won[client] += 0.5
		}
	}
	m.Nearer, m.NearerCI = clusteredFraction(won, of, in.random("interval"))
	between, _ := nearest(e.controls, e.controls, func(i, j int) bool { return e.controlOf[i] != e.controlOf[j] })
	bound := slices.Max(between)
	cosines, at := nearest(e.product, e.members, anyRow)
	for i, c := range cosines {
		if row := e.productOf[i]; c > bound && !slices.Contains(in.Public, in.Product[row]) {
			m.Copies = append(m.Copies, Copy{in.Members[e.memberOf[at[i]]].ID, c, in.Product[row], row})
		}
	}
	slices.SortStableFunc(m.Copies, func(a, b Copy) int { return cmp.Compare(b.Cosine, a.Cosine) })
	m.Copies = m.Copies[:min(len(m.Copies), mostFound)]
}

// distinct are the clients of rows, in order.
func distinct(of []int) (clients []int) { return slices.Compact(slices.Clone(of)) }

func anyRow(int, int) bool { return true }

// clusteredFraction is a fraction with its 95 % interval over clusters (bootstrap of 1000).
func clusteredFraction(won, of map[int]float64, random interface{ IntN(int) int }) (fraction float64, ci [2]float64) {
	keys := slices.Sorted(maps.Keys(of))
	mean := func(draw func(i int) int) float64 {
		w, n := 0.0, 0.0
		for i := range keys {
			k := keys[draw(i)]
			w, n = w+won[k], n+of[k]
		}
		return w / n
	}
	var draws []float64
	for range 1000 {
		draws = append(draws, mean(func(int) int { return random.IntN(len(keys)) }))
	}
	slices.Sort(draws)
	quantile := func(p float64) float64 { return stat.Quantile(p, stat.Empirical, draws, nil) }
	return mean(func(i int) int { return i }), [2]float64{quantile(0.025), quantile(0.975)}
}

// nearest finds for each row i of a the row j of b with the largest cosine among those that use(i, j) admits; without
// any, it is −1 at row 0. All rows have the length 1.
func nearest(a, b embedding.Matrix, use func(i, j int) bool) (cosines []float64, at []int) {
	cosines, at = make([]float64, a.Rows), make([]int, a.Rows)
	vector := func(row []float32) blas32.Vector { return blas32.Vector{N: len(row), Inc: 1, Data: row} }
	parallel.Each(a.Rows, func(i int) {
		best, x := float32(-1), vector(a.Row(i))
		for j := range b.Rows {
			if !use(i, j) {
				continue
			}
			if c := blas32.Dot(x, vector(b.Row(j))); c > best {
				best, at[i] = c, j
			}
		}
		cosines[i] = float64(best)
	})
	return cosines, at
}
