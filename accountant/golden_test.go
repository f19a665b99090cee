package accountant

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"testing"

	"popri/internal/golden"
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
		release
		Alpha     float64
		Orders    string
		OrderList []float64 `json:"orders_list"`
		RDP       []float64
		Events    []release
	}
}

type release struct {
	Type  string
	Sigma float64
	Q     *float64
	T     int
}

func (r release) event() Event {
	e := Event{Sigma: r.Sigma, Count: r.T}
	if r.Q != nil {
		e.SamplingRate = *r.Q
		if e.SamplingRate == 0 {
			e.Count = 0 // nobody takes part
		}
	}
	return e
}

func TestGoldenAccountant(t *testing.T) {
	dir := filepath.Join(golden.Root(t), "accountant")
	file, err := os.Open(filepath.Join(dir, "cases.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	content, err := os.ReadFile(filepath.Join(dir, "orders.json"))
	if err != nil {
		t.Fatal(err)
	}
	orders := map[string][]float64{}
	if err := json.Unmarshal(content, &orders); err != nil {
		t.Fatal(err)
	}

	counts, unbuilt := map[string]int{}, map[string]bool{}
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var c testCase
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			t.Fatalf("%s: %v", lines.Text(), err)
		}
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
			t.Errorf("%s (%s): %s is %.15g, want %.15g to %.15g", c.ID, kind, c.Quantity, got, float64(c.Accept[0]), float64(c.Accept[1]))
		}
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
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
	events := []Event{c.Params.event()}
	switch c.Mechanism {
	case "gaussian", "poisson_gaussian":
	case "composition":
		events = nil
		for _, r := range c.Params.Events {
			if r.Type != "gaussian" && r.Type != "poisson_gaussian" {
				return 0, false, nil
			}
			events = append(events, r.event())
		}
	case "rdp_curve":
		if c.Quantity == "epsilon" {
			return rdpEpsilon(c.Params.OrderList, c.Params.RDP, c.Delta, true), true, nil
		}
		return 0, false, nil
	default:
		return 0, false, nil
	}
	var a Accountant
	switch c.Accountant {
	case "exact":
		a = Exact{}
	case "rdp":
		if c.Quantity == "rdp" {
			r := RDP{Orders: []float64{c.Params.Alpha}}
			_, divergences, err := r.curve(events)
			return divergences[0], true, err
		}
		list, found := orders[c.Params.Orders]
		if !found && c.Params.Orders != "" {
			return 0, true, fmt.Errorf("no order list %q", c.Params.Orders)
		}
		a = RDP{Orders: list, NoKLBound: c.Params.Orders == "opacus"} // that library has no such bound
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
		value, err = Sigma(a, c.Epsilon, c.Delta, event.Count, event.SamplingRate)
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
