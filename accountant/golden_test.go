package accountant

import (
	"encoding/json"
	"fmt"
	"math"
	"path/filepath"
	"testing"

	"popri/testkit/golden"
	"popri/testkit/testfile"
)

// number is a JSON number, or infinity as the string "inf".
type number float64

func (n *number) UnmarshalJSON(b []byte) error {
	if string(b) == `"inf"` {
		*n = number(math.Inf(1))
		return nil
	}
	return json.Unmarshal(b, (*float64)(n))
}

type testCase struct {
	ID         string
	Mechanism  string
	Accountant string
	Quantity   string
	Delta      float64
	Epsilon    float64
	Accept     [2]number
	Params     struct {
		testEvent
		Alpha     float64
		Orders    string
		OrderList []float64 `json:"orders_list"`
		RDP       []float64
		Events    []testEvent
		Relation  string
		Direction string
		testTree
	}
}

type testEvent struct {
	Type  string
	Sigma float64
	B     float64 // scale of Laplace noise
	Q     *float64
	Size  int `json:"N"`
	Drawn int `json:"n"`
	T     int
}

// UnmarshalJSON distinguishes N and n, which encoding/json does not.
func (r *testEvent) UnmarshalJSON(b []byte) error {
	raw := map[string]json.RawMessage{}
	if err := json.Unmarshal(b, &raw); err != nil {
		return err
	}
	for key, into := range map[string]any{"type": &r.Type, "sigma": &r.Sigma, "b": &r.B, "q": &r.Q, "N": &r.Size,
		"n": &r.Drawn, "T": &r.T} {
		if v, ok := raw[key]; ok {
			if err := json.Unmarshal(v, into); err != nil {
				return fmt.Errorf("%s: %w", key, err)
			}
		}
	}
	return nil
}

func (r testEvent) event(mechanism string) (Event, bool) {
	e := Event{Sigma: r.Sigma, Count: r.T}
	switch mechanism {
	case "gaussian", "poisson_gaussian":
	case "laplace", "poisson_laplace":
		e.Mechanism, e.Sigma = Laplace, r.B
	case "discrete_gaussian":
		e.Mechanism = DiscreteGaussian
	case "fixed_size_gaussian":
		// There sigma is relative to how far a replacement moves the sum; here to the norm bound, half of it.
		e.Population, e.Cohort, e.Sigma = r.Size, r.Drawn, 2*r.Sigma
	default:
		return e, false
	}
	if r.Q != nil {
		e.SamplingRate = *r.Q
		if e.SamplingRate == 0 {
			e.Count = 0 // nobody takes part
		}
	}
	return e, true
}

// testTree is a case of tree aggregation.
type testTree struct {
	MaxParticipation int   `json:"max_participation"`
	MinSeparation    int   `json:"min_separation"`
	ExactSeparation  *int  `json:"exact_separation"`
	Steps            int   `json:"steps"`
	RealSteps        int   `json:"real_steps"`
	StepsPerEpoch    []int `json:"steps_per_epoch"`
	Participation    string
	SumSquares       int `json:"sum_squared_sensitivity"`
}

func (c testTree) sumSquares() (int, error) {
	if c.SumSquares > 0 {
		return c.SumSquares, nil
	}
	if c.StepsPerEpoch == nil {
		tree := Tree{Steps: c.Steps, RealSteps: c.RealSteps, MaxParticipation: c.MaxParticipation,
			MinSeparation: c.MinSeparation}
		if c.ExactSeparation != nil {
			tree.MinSeparation, tree.Periodic = *c.ExactSeparation, true
		}
		return tree.SumSquares()
	}
	most, total := 0, 0 // of one epoch's tree, and of all
	for _, n := range c.StepsPerEpoch {
		one := Tree{Steps: n, MaxParticipation: 1}
		s, err := one.SumSquares()
		if err != nil {
			return 0, err
		}
		most, total = max(most, s), total+s
	}
	if c.Participation == "one_epoch" {
		return most, nil
	}
	return total, nil
}

func TestGoldenAccountant(t *testing.T) {
	dir := filepath.Join(golden.Root(t), "accountant")
	orders := map[string][]float64{}
	testfile.ReadJSON(t, filepath.Join(dir, "orders.json"), &orders)

	counts, unbuilt := map[string]int{}, map[string]bool{}
	for _, c := range testfile.ReadLines[testCase](t, filepath.Join(dir, "cases.jsonl")) {
		kind := fmt.Sprintf("accountant/%s/%s", c.Mechanism, c.Accountant)
		got, ok, err := c.compute(orders)
		if !ok {
			if !unbuilt[kind] {
				unbuilt[kind] = true
				golden.Unbuilt(t, kind)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", c.ID, err)
			continue
		}
		counts[kind+"/"+c.Quantity]++
		if !(got >= float64(c.Accept[0]) && got <= float64(c.Accept[1])) {
			t.Errorf("%s (%s): %s is %.15g, want %.15g to %.15g", c.ID, kind, c.Quantity, got, float64(c.Accept[0]),
				float64(c.Accept[1]))
		}
	}
	for kind, n := range counts {
		golden.Checked(t, kind, n)
	}
	if len(counts) == 0 {
		golden.Checked(t, "accountant", 0)
	}
}

// compute returns what the case asks for; ok is false where no accountant of popri covers it.
func (c *testCase) compute(orders map[string][]float64) (value float64, ok bool, err error) {
	var events []Event
	switch c.Mechanism {
	case "composition":
		for _, r := range c.Params.Events {
			e, known := r.event(r.Type)
			if !known {
				return 0, false, nil
			}
			events = append(events, e)
		}
	case "tree":
		sum, err := c.Params.sumSquares()
		if err != nil || c.Quantity == "sum_squared_sensitivity" {
			return float64(sum), true, err
		}
		events = []Event{TreeEvent(c.Params.Sigma, sum)}
	case "rdp_curve":
		if c.Quantity == "epsilon" {
			return rdpEpsilon(c.Params.OrderList, c.Params.RDP, c.Delta, true), true, nil
		}
		return 0, false, nil
	default:
		e, known := c.Params.event(c.Mechanism)
		if !known {
			return 0, false, nil
		}
		events = []Event{e}
	}
	relation, known := map[string]Relation{"": AddOrRemove, "ADD_OR_REMOVE_ONE": AddOrRemove,
		"REPLACE_ONE": Replace}[c.Params.Relation]
	if !known {
		return 0, false, nil
	}
	var a Accountant
	switch c.Accountant {
	case "exact":
		a = Exact{Relation: relation}
	case "rdp":
		if c.Quantity == "rdp" {
			r := RDP{orders: []float64{c.Params.Alpha}}
			_, divergences, err := r.curve(events)
			if err != nil {
				return 0, true, err
			}
			return divergences[0], true, nil
		}
		list, found := orders[c.Params.Orders]
		if !found && c.Params.Orders != "" {
			return 0, true, fmt.Errorf("no order list %q", c.Params.Orders)
		}
		a = RDP{orders: list, noKLBound: c.Params.Orders == "opacus", Relation: relation} // that library has no such bound
	case "pld":
		a = PLD{Relation: relation, direction: c.Params.Direction}
	case "prv": // whose own error is 0.01
		a = PLD{Relation: relation, Accuracy: 1e-4}
	case "gdp-clt":
		a = clt{}
	default:
		return 0, false, nil
	}
	switch c.Quantity {
	case "epsilon":
		value, err = a.Epsilon(events, c.Delta)
	case "delta":
		value, err = a.Delta(events, c.Epsilon)
	case "sigma":
		event := events[0]
		value, err = Plan{Each: event}.Sigma(a, c.Epsilon, c.Delta)
		if err == nil {
			var e float64
			event.Sigma = value
			if e, err = a.Epsilon([]Event{event}, c.Delta); err == nil && e > c.Epsilon {
				err = fmt.Errorf("sigma %.15g spends %.15g of %g", value, e, c.Epsilon)
			}
		}
	default:
		return 0, false, nil
	}
	return value, true, err
}

// FuzzCase: a case file may hold anything; what it asks is answered or refused, never with a panic or with NaN.
func FuzzCase(f *testing.F) {
	for _, line := range []string{
		`{"mechanism":"gaussian","params":{"sigma":6.998,"T":12},"accountant":"exact","delta":5.1e-9,"quantity":"epsilon","accept":[0,"inf"]}`,
		`{"mechanism":"poisson_gaussian","params":{"q":0.1,"sigma":0,"T":3,"relation":"REPLACE_ONE"},"accountant":"pld","epsilon":1,"quantity":"delta"}`,
		`{"mechanism":"fixed_size_gaussian","params":{"N":10,"n":3,"sigma":2,"T":2,"relation":"REPLACE_ONE"},"accountant":"rdp","delta":1e-3,"quantity":"epsilon"}`,
		`{"mechanism":"composition","params":{"events":[{"type":"laplace","b":2,"T":3},{"type":"gaussian","sigma":3,"T":1}]},"accountant":"pld","delta":1e-3,"quantity":"epsilon"}`,
		`{"mechanism":"tree","params":{"max_participation":3,"min_separation":2,"steps":7},"accountant":"exact","quantity":"sum_squared_sensitivity"}`,
		`{"mechanism":"poisson_gaussian","params":{"q":0.1,"sigma":1,"T":1,"alpha":2.5},"accountant":"rdp","quantity":"rdp"}`,
		`{"mechanism":"poisson_gaussian","params":{"q":0.1,"sigma":1,"T":1},"accountant":"rdp","quantity":"rdp"}`,
		`{"mechanism":"rdp_curve","params":{"orders_list":[2,3],"rdp":[1.1,1.1]},"accountant":"rdp","delta":1e-5,"quantity":"epsilon"}`,
		`{"mechanism":"gaussian","params":{"T":5},"accountant":"exact","delta":1e-5,"epsilon":2,"quantity":"sigma"}`,
	} {
		f.Add([]byte(line))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var c testCase
		if json.Unmarshal(b, &c) != nil {
			return
		}
		small := func(r testEvent) bool {
			return r.T < 1000 && (r.Sigma == 0 || r.Sigma > 0.1) && (r.B == 0 || r.B > 0.1)
		}
		ok := small(c.Params.testEvent) && c.Params.Steps < 100 && c.Params.MinSeparation < 20 &&
			len(c.Params.StepsPerEpoch) < 5 && len(c.Params.Events) < 5 &&
			c.Params.Alpha < 100 && c.Quantity != "sigma" && len(c.Params.OrderList) == len(c.Params.RDP)
		for _, n := range c.Params.StepsPerEpoch {
			ok = ok && n < 1000
		}
		for _, r := range c.Params.Events {
			ok = ok && small(r)
		}
		if !ok {
			return // takes long, and shows nothing else
		}
		value, known, err := c.compute(nil)
		if known && err == nil && math.IsNaN(value) && c.Mechanism != "rdp_curve" { // whose numbers are the file's own
			t.Errorf("%s: NaN", b)
		}
	})
}
