package ensemble

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math"
	"strconv"
	"strings"

	"popri/internal/rng"
)

// Question asks all teachers for the next token of a text. It implements query.Choosing: what is released is a token
// with its noised count, or none, and never the histogram.
type Question struct {
	Teachers      int
	Heterogeneous bool    // see [Rule]
	Vocab         int     // tokens of the model
	Coordinated   bool    // the teachers vote with public shared randomness
	Temperature   float64 // of the teachers' distributions
	// Shared says that several clients share a teacher: one client's texts, taken away, change the teacher's vote,
	// which moves two counts by 1. A teacher with one client alone abstains without its texts, which moves one count.
	Shared bool
	Model  string // identifies the model and the way in which its prompts are made
	Seed   uint64 // of the votes' randomness, which is public
	// Round, Text and Part say which vote of the run it is: part Part of round Round, for text Text of the round.
	Round, Text, Part int
	Prefix            []int32 // the text so far
	Banned            []int32 // tokens that may not be chosen
}

// named begins the names of these questions.
const named = "ensemble/"

// Named reports whether a question's name is the name of a [Question].
func Named(name string) bool { return strings.HasPrefix(name, named) }

// Name implements query.Question: "ensemble/homogeneous/coordinated temperature 1".
func (q Question) Name() string { return Name(q.Heterogeneous, q.Coordinated, q.Temperature) }

// Name is the name of a question.
func Name(heterogeneous, coordinated bool, temperature float64) string {
	kind, vote := "homogeneous", "independent"
	if heterogeneous {
		kind = "heterogeneous"
	}
	if coordinated {
		vote = "coordinated"
	}
	return fmt.Sprintf("%s%s/%s temperature %g", named, kind, vote, temperature)
}

// Key implements query.Question: a hash of everything else that decides the votes and the choice.
func (q Question) Key() string {
	h := sha256.New()
	fmt.Fprintf(h, "%s\n%d %d %v\n%d %d %d %d\n%v %v", q.Model, q.Vocab, q.Teachers, q.Shared, q.Seed, q.Round, q.Text,
		q.Part, q.Prefix, q.Banned)
	return hex.EncodeToString(h.Sum(nil))
}

// Len implements query.Question: the length of the histogram.
func (q Question) Len() int { return q.Vocab }

// Bound implements query.Question: by how much one client's texts move the histogram at most, in the L2 norm.
func (q Question) Bound() float64 { return Bound(q.Shared) }

// Bound is [Question.Bound] for teachers that several clients share, or not.
func Bound(shared bool) float64 {
	if shared {
		return math.Sqrt2
	}
	return 1
}

// Chosen implements query.Choosing: a token and its noised count.
func (q Question) Chosen() int { return 2 }

// Choose implements query.Choosing.
func (q Question) Choose(noised []float64, std, u float64) []float64 {
	token, count := Rule{q.Teachers, Margin(std, q.Vocab), q.Heterogeneous}.Choose(noised, u)
	return []float64{float64(token), count}
}

// Randomness is the shared randomness of a coordinated vote.
func (q Question) Randomness() []float64 {
	return sharedNoise(q.Vocab, q.Banned, rng.New(q.Seed, q.path()...))
}

// Uniform is the random number of a teacher's independent vote.
func (q Question) Uniform(teacher int) float64 {
	return rng.New(q.Seed, append(q.path(), strconv.Itoa(teacher))...).Float64()
}

func (q Question) path() []string {
	return []string{"ensemble", strconv.Itoa(q.Round), strconv.Itoa(q.Part)}
}
