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
		Sigma  float64
		T      int
		Orders string
	}
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
	if c.Mechanism != "gaussian" {
		return 0, false, nil
	}
	var a Accountant
	switch c.Accountant {
	case "exact":
		a = Exact{}
	case "rdp":
		list, found := orders[c.Params.Orders]
		if !found {
			return 0, true, fmt.Errorf("no order list %q", c.Params.Orders)
		}
		a = RDP{Orders: list, NoKLBound: c.Params.Orders == "opacus"} // that library has no such bound
	default:
		return 0, false, nil
	}
	events := []Event{{Sigma: c.Params.Sigma, Count: c.Params.T}}
	switch c.Quantity {
	case "epsilon":
		value, err = a.Epsilon(events, c.Delta)
	case "delta":
		value, err = a.Delta(events, c.Epsilon)
	case "sigma":
		value, err = Sigma(a, c.Epsilon, c.Delta, c.Params.T, 1)
		if err == nil {
			var e float64
			if e, err = a.Epsilon([]Event{{Sigma: value, Count: c.Params.T}}, c.Delta); err == nil && e > c.Epsilon {
				err = fmt.Errorf("sigma %.15g spends %.15g of %g", value, e, c.Epsilon)
			}
		}
	default:
		return 0, false, nil
	}
	return value, true, err
}
