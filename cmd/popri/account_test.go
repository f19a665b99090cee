package main

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

func number(t *testing.T, v map[string]any, key string) float64 {
	t.Helper()
	x, ok := v[key].(float64)
	if !ok {
		t.Fatalf("%v has no number %s", v, key)
	}
	return x
}

// Who takes part, who is protected and by which relation change the answer, and are part of it.
func TestAccountSampling(t *testing.T) {
	ask := func(args string) map[string]any {
		t.Helper()
		code, out, errs := popri(t,
			strings.Fields("account epsilon --json --noise-multiplier 2 --rounds 10 --delta 1e-5 "+args)...)
		if code != 0 {
			t.Fatalf("%s: exit code %d, %s", args, code, errs)
		}
		return decode(t, out)
	}
	full, poisson, fixed := ask(""), ask("--sampling-rate 0.1"), ask("--population 1000 --cohort 100")
	if full["relation"] != "zero_out" || fixed["relation"] != "replace" || fixed["clients"] != nil {
		t.Errorf("relations: %v, %v", full, fixed)
	}
	if number(t, full, "exact") != number(t, full, "pld") || number(t, poisson, "pld") >= number(t, full, "pld") ||
		number(t, poisson, "pld_lower") > number(t, poisson, "pld") {
		t.Errorf("everybody %v, a tenth %v", full, poisson)
	}
	if number(t, poisson, "pld") > number(t, poisson, "rdp") || number(t, fixed, "pld") > number(t, fixed, "rdp") ||
		number(t, fixed, "pld") <= number(t, poisson, "pld") {
		t.Errorf("Poisson %v, fixed %v", poisson, fixed)
	}
	if two := ask("--group 2"); number(t, two, "exact") <= number(t, full, "exact") ||
		!strings.Contains(two["unit"].(string), "up to 2 clients") ||
		!strings.Contains(two["sensitivity"].(string), "2 times as far") {
		t.Errorf("a group of two: %v", two)
	}
	if _, out, _ := popri(t,
		strings.Fields("account epsilon --noise-multiplier 2 --rounds 10 --delta 1e-5 --group 2")...); strings.Contains(out,
		"one client") || !strings.Contains(out, "2 times the norm bound") {
		t.Errorf("a group of two is told of as one client: %s", out)
	}
	if replace := ask("--relation replace"); number(t, replace, "exact") <= number(t, full, "exact") ||
		!strings.Contains(replace["sensitivity"].(string), "twice") {
		t.Errorf("replacement: %v", replace)
	}
	if laplace := ask("--mechanism laplace"); !strings.Contains(laplace["sensitivity"].(string), "L1") ||
		number(t, laplace, "pld") > number(t, laplace, "rdp")*1.0001 {
		t.Errorf("Laplace: %v", laplace)
	}
	if more := ask("--relation add_or_remove"); number(t, more, "exact") != number(t, full, "exact") ||
		more["relation"] != "add_or_remove" {
		t.Errorf("one client more or less: %v", more)
	}
	if forced := ask("--clients 100000 --force-delta"); number(t, forced, "exact") != number(t, full, "exact") {
		t.Errorf("forced: %v", forced)
	}
}

func TestTableColumnsAreRoundedUp(t *testing.T) {
	for v, want := range map[float64]string{6.49931: "6.4994", 7: "7.0000", 0.35295001: "0.3530", 0.000012: "1.2e-05",
		31.62: "31.6200", 9.99999: "10.0000", 0: "0"} {
		if got := decimalsUp(v); got != want {
			t.Errorf("%g: %s, want %s", v, got, want)
		}
	}
}

func TestAccountMistakes(t *testing.T) {
	base := "account epsilon --noise-multiplier 2 --rounds 10 --delta 1e-3 "
	for args, want := range map[string]string{
		base + "--cohort 5": "both or none", base + "--population 10 --cohort 11": "--cohort is 11",
		base + "--population 10000 --cohort 11":                             "1/clients",
		base + "--population 100 --cohort 11 --sampling-rate 0.1":           "give one of them",
		base + "--relation sideways":                                        "sideways",
		base + "--group 0":                                                  "--group is 0",
		base + "--clients -1":                                               "--clients is -1",
		base + "--clients 1000":                                             "less than 1/clients = 0.001",
		base + "--mechanism uniform":                                        "uniform",
		base + "--population 100 --cohort 11 --relation add_or_remove":      "no accountant covers",
		"account tree --steps 0 --noise-multiplier 1 --delta 1e-5":          "0 steps",
		"account tree --steps 4 --noise-multiplier 1 --delta 2":             "delta is 2",
		"account tree --steps 4 --noise-multiplier 1 --delta 0.1 --trees 0": "--trees is 0",
		"account audit":                                                     "1 arg",
		"account audit nowhere":                                             "holds no run",
	} {
		code, out, errs := popri(t, strings.Fields(args)...)
		if code != exitUsage || out != "" || !strings.Contains(errs, want) {
			t.Errorf("%s: exit code %d, %q, want %q", args, code, errs, want)
		}
	}
}

func TestAccountTree(t *testing.T) {
	code, out, errs := popri(t,
		strings.Fields("account tree --json --steps 8 --max-participation 8 --noise-multiplier 20 --delta 1e-5 "+
			"--trees 2")...)
	if code != 0 {
		t.Fatal(errs)
	}
	if v := decode(t, out); v["sum_of_squares"] != 240.0 || number(t, v, "exact") > number(t, v, "rdp") ||
		v["mechanism"] != "gaussian" || v["taking_part"] != "a client in 8 leaves of a tree at most, 1 or more apart" {
		t.Errorf("tree: %v", v)
	}
}

// leaves lists all verbs that do something, as words.
func leaves(cmd *cobra.Command) [][]string {
	var out [][]string
	for _, c := range cmd.Commands() {
		below := leaves(c)
		if len(below) == 0 {
			below = [][]string{nil}
		}
		for _, words := range below {
			out = append(out, append([]string{c.Name()}, words...))
		}
	}
	return out
}

// FuzzFlags gives every flag of every verb any value: it is parsed or refused.
func FuzzFlags(f *testing.F) {
	a := &app{}
	all := leaves(a.root())
	for i := range all {
		f.Add(uint16(i), "--json=x")
	}
	f.Add(uint16(0), "--delta=1e-5\x00--rounds=-3\x00--noise-multipliers=1,,2")
	f.Fuzz(func(t *testing.T, verb uint16, args string) {
		words := all[int(verb)%len(all)]
		cmd, _, err := (&app{}).root().Find(words)
		if err != nil {
			t.Fatalf("%v: %v", words, err)
		}
		_ = cmd.ParseFlags(strings.Split(args, "\x00")) // any error will do; a panic will not
	})
}

// FuzzAccount asks the account verbs with any values: an answer, or a mistake that is told as one.
func FuzzAccount(f *testing.F) {
	f.Add(byte(0), 1.0, 20, 1e-5, 7.0, 1.0, 0, 0, 1, byte(0))
	f.Add(byte(1), 2.0, 3, 0.5, 0.1, 0.01, 0, 0, 2, byte(1))
	f.Add(byte(2), 0.5, 10, 1e-9, 1.0, 1.0, 100, 10, 1, byte(0))
	f.Fuzz(func(t *testing.T, verb byte, sigma float64, rounds int, delta, epsilon, rate float64, population, cohort,
		group int, mechanism byte) {
		if rounds > 100 || sigma < 0.2 && sigma > 0 || group > 3 || epsilon > 50 && verb%4 == 3 ||
			verb%4 == 3 && sigma > 10 || verb%4 == 2 && epsilon < 0.01 {
			return // takes long, and shows nothing else
		}
		q := quantities[verb%4]
		args := []string{"account", q.name, "--json", fmt.Sprint("--group=", group),
			"--mechanism=" + []string{"gaussian", "laplace", "discrete_gaussian"}[mechanism%3]}
		values := map[string]any{"noise-multiplier": sigma, "rounds": rounds, "delta": delta, "epsilon": epsilon}
		for _, flag := range q.given {
			args = append(args, fmt.Sprintf("--%s=%v", flag, values[flag]))
		}
		if cohort != 0 {
			args = append(args, fmt.Sprint("--population=", population), fmt.Sprint("--cohort=", cohort))
		} else {
			args = append(args, fmt.Sprint("--sampling-rate=", rate))
		}
		code, out, errs := popri(t, args...)
		if code != 0 && code != exitUsage || code == 0 && errs != "" {
			t.Errorf("%q: exit code %d, %s", args, code, errs)
		}
		if code == 0 {
			for key, v := range decode(t, out) {
				if x, ok := v.(float64); ok && (math.IsNaN(x) || x < 0) {
					t.Errorf("%q: %s is %g", args, key, x)
				}
			}
		}
	})
}

// TestExcess: the table says where the bound of rdp is of no use.
func TestExcess(t *testing.T) {
	for _, c := range []struct {
		of   []named
		want float64
	}{{nil, 0}, {[]named{{"pld", 2}}, 0}, {[]named{{"exact", 1}, {"pld", 2}, {"rdp", 8}}, 4}} {
		if got := (answers{byName: c.of}).excess(); got != c.want {
			t.Errorf("%v: %g, want %g", c.of, got, c.want)
		}
	}
}
