package accountant

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Mechanism is the kind of noise.
type Mechanism string

// The mechanisms. The zero value of [Event.Mechanism] is Gaussian.
const (
	Gaussian         Mechanism = "gaussian"          // real-valued normal noise
	Laplace          Mechanism = "laplace"           // real-valued Laplace noise, for sums bounded in the L1 norm
	DiscreteGaussian Mechanism = "discrete_gaussian" // integers with probabilities in proportion to exp(−k²/2σ²)
	Gumbel           Mechanism = "gumbel"            // no sum but a selection of the largest counts, by Gumbel noise on each
)

// Event is a number of equal releases, each a noised sum over clients.
type Event struct {
	Mechanism Mechanism
	// Sigma is the noise multiplier: the noise's standard deviation (Laplace, Gumbel: its scale) / the norm that no
	// client's contribution exceeds. 0 means no noise and no privacy. Sigma refers to that norm under every relation:
	// replacing a client moves the sum by up to twice the norm, which the accountants take into account.
	Sigma float64
	// SamplingRate is the probability with which each client takes part, independently (Poisson sampling). 0 and 1 mean
	// that all take part.
	SamplingRate float64
	// Population and Cohort say that each release asks exactly Cohort of Population clients, drawn without replacement.
	// Both are 0 if it does not; SamplingRate must then be the only sampling.
	Population, Cohort int
	// Group is the number of clients that belong to one protected person, each contributing up to the norm; 0 means 1.
	Group int
	// Count is the number of releases. 0 means none.
	Count int
	// Picks and Slack belong to [Gumbel]: the most elements that a selection has, and the probability of what its
	// divergence does not cover. Both are 0 of other mechanisms.
	Picks int
	Slack float64
}

// Relation says which data sets count as neighbours.
type Relation string

// The relations.
const (
	// ZeroOut: all texts of one client are taken away, so that its vector is zero; the number of clients stays and is
	// public. The sum moves by the norm bound, as under [AddOrRemove], and every bound for that relation holds for this
	// one: a drawn client that contributes nothing leaves the sum as it would be without that client. dp_accounting
	// calls it REPLACE_SPECIAL. Runs state this relation, because the number of clients appears in everything that they
	// publish.
	ZeroOut Relation = "zero_out"
	// AddOrRemove: one client more or less, so that the number of clients is secret. The sum moves by the norm bound.
	AddOrRemove Relation = "add_or_remove"
	// Replace: the texts of one client are exchanged for any others, or for none; the number of clients is public. The
	// sum moves by twice the norm bound.
	Replace Relation = "replace"
)

// relations lists all of them.
var relations = []Relation{ZeroOut, AddOrRemove, Replace}

// GroupWords says what the relation means for up to k clients together, and how far it lets a sum move.
func (r Relation) GroupWords(k int) string {
	who := "one client"
	if k > 1 {
		who = fmt.Sprintf("up to %d clients", k)
	}
	differ := "one of them lacks " + who + "; the number of clients is secret"
	switch r {
	case ZeroOut:
		differ = "the texts of " + who + " are taken away in one of them; the number of clients is public"
	case Replace:
		differ = "they differ in the whole data of " + who + "; the number of clients is public"
	}
	distance := "the norm bound"
	switch times := int(Event{Group: k}.shift(r)); {
	case times == 2 && r == Replace:
		distance = "twice the norm bound"
	case times > 1:
		distance = fmt.Sprintf("%d times the norm bound", times)
	}
	return "Two data sets are neighbours if " + differ + ". A sum moves by at most " + distance + "."
}

// Validate returns an error that lists the relations there are.
func (r Relation) Validate() error {
	if !slices.Contains(relations, r) {
		return fmt.Errorf("relation is %q, want %q, %q or %q", r, ZeroOut, AddOrRemove, Replace)
	}
	return nil
}

// ErrNotApplicable marks an accountant that knows no bound for the events asked about.
var ErrNotApplicable = errors.New("accountant: not applicable")

func (e Event) sampled() bool { return e.SamplingRate != 0 && e.SamplingRate != 1 }

func (e Event) fixed() bool { return e.Population != 0 && e.Cohort != e.Population }

func (e Event) group() float64 { return float64(max(1, e.Group)) }

func (e Event) continuous() bool { return e.Mechanism == "" || e.Mechanism == Gaussian }

// plain reports whether the event is Gaussian noise on a sum over all clients, whose bounds are exact.
func (e Event) plain() bool { return e.continuous() && !e.sampled() && !e.fixed() }

// shift is the largest distance of neighbouring sums, in units of the norm bound.
func (e Event) shift(r Relation) float64 {
	if r == Replace {
		return 2 * e.group()
	}
	return e.group()
}

// hit is the probability that any client of the group is drawn.
func (e Event) hit() float64 {
	g := int(e.group())
	switch {
	case e.sampled():
		return -math.Expm1(float64(g) * math.Log1p(-e.SamplingRate))
	case e.fixed():
		missed := 1.0
		for i := range g {
			missed *= max(0, float64(e.Population-e.Cohort-i)) / float64(e.Population-i)
		}
		return 1 - missed
	}
	return 1
}

func (e Event) validate() error {
	switch e.Mechanism {
	case "", Gaussian, Laplace, DiscreteGaussian, Gumbel:
	default:
		return fmt.Errorf("accountant: mechanism is %q, want %q, %q, %q or %q", e.Mechanism, Gaussian, Laplace,
			DiscreteGaussian, Gumbel)
	}
	if selects := e.Mechanism == Gumbel; selects != (e.Picks > 0) || !(e.Slack >= 0 && e.Slack < 1) ||
		!selects && e.Slack != 0 || selects && (e.sampled() || e.fixed()) {
		return fmt.Errorf("accountant: a release by %s with %d picks, slack %g, a sampling rate of %g and cohorts of %d",
			e.Mechanism, e.Picks, e.Slack, e.SamplingRate, e.Cohort)
	}
	if !(e.Sigma >= 0) {
		return fmt.Errorf("accountant: noise multiplier is %g, want 0 or more", e.Sigma)
	}
	if !(e.SamplingRate >= 0 && e.SamplingRate <= 1) {
		return fmt.Errorf("accountant: sampling rate is %g, want 0 to 1", e.SamplingRate)
	}
	if e.Count < 0 {
		return fmt.Errorf("accountant: %d releases", e.Count)
	}
	if e.Group < 0 || e.Group > 1000 {
		return fmt.Errorf("accountant: %d clients in a group, want 1 to 1000", e.Group)
	}
	if e.Population != 0 || e.Cohort != 0 {
		if e.Cohort < 1 || e.Cohort > e.Population {
			return fmt.Errorf("accountant: a cohort of %d of %d clients", e.Cohort, e.Population)
		}
		if e.Group > e.Population {
			return fmt.Errorf("accountant: a group of %d of %d clients", e.Group, e.Population)
		}
		if e.SamplingRate != 0 {
			return fmt.Errorf("accountant: both a sampling rate, %g, and a cohort of fixed size, %d", e.SamplingRate, e.Cohort)
		}
	}
	return nil
}

func validRelation(r Relation) (Relation, error) {
	r = cmp.Or(r, AddOrRemove)
	if err := r.Validate(); err != nil {
		return r, fmt.Errorf("accountant: %w", err)
	}
	return r, nil
}

// covered returns ErrNotApplicable where the event cannot have neighbours by the relation.
func (e Event) covered(r Relation) error {
	if e.fixed() && r != Replace {
		return fmt.Errorf("%w: a cohort of fixed size %d of %d is accounted under %q: its bound compares cohorts in "+
			"which another client replaces one", ErrNotApplicable, e.Cohort, e.Population, Replace)
	}
	if e.Mechanism == Gumbel && r == Replace {
		return fmt.Errorf("%w: a selection is accounted for texts that are taken away, not under %q", ErrNotApplicable, Replace)
	}
	return nil
}

func validDelta(delta float64) error {
	if !(delta > 0 && delta < 1) {
		return fmt.Errorf("accountant: delta is %g, want more than 0 and less than 1", delta)
	}
	return nil
}

func validEpsilon(epsilon float64) error {
	if !(epsilon >= 0) {
		return fmt.Errorf("accountant: epsilon is %g, want 0 or more", epsilon)
	}
	return nil
}

// RoundUp shows v with the given number of significant digits (1 to 15), and never less than v: an upper bound, such as
// ε, stays one when it is printed.
func RoundUp(v float64, digits int) string { return directed(v, digits, +1) }

// RoundDown shows v with the given number of significant digits (1 to 15), and never more than v, for lower bounds.
func RoundDown(v float64, digits int) string { return directed(v, digits, -1) }

// directed rounds to nearest and, where that went in the wrong direction, moves the last digit by one.
func directed(v float64, digits, direction int) string {
	nearest := strconv.FormatFloat(v, 'e', digits-1, 64)
	shown, err := strconv.ParseFloat(nearest, 64)
	if err != nil || v == 0 || math.IsInf(v, 0) || math.IsNaN(v) {
		return strconv.FormatFloat(v, 'g', -1, 64)
	}
	if direction > 0 && shown < v || direction < 0 && shown > v {
		mantissa, exponent, _ := strings.Cut(nearest, "e")
		whole, errWhole := strconv.Atoi(strings.Replace(mantissa, ".", "", 1))
		power, errPower := strconv.Atoi(exponent)
		if errWhole != nil || errPower != nil {
			panic("accountant: strconv wrote " + nearest) // a bug
		}
		power -= digits - 1
		// Below a power of ten, numbers are closer together.
		if next := whole + direction; len(strconv.Itoa(max(next, -next))) < digits {
			whole, power = 10*whole, power-1
		}
		moved := strconv.Itoa(whole+direction) + "e" + strconv.Itoa(power)
		if shown, err = strconv.ParseFloat(moved, 64); err != nil {
			return moved // past the largest number
		}
	}
	text := strconv.FormatFloat(shown, 'g', digits, 64)
	if !strings.ContainsAny(text, ".") || strings.Contains(text, "e") {
		return text
	}
	return strings.TrimRight(strings.TrimRight(text, "0"), ".")
}
