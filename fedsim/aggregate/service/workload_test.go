package service_test

import (
	"fmt"
	"os"
	"strconv"
	"testing"

	"popri/fedsim/aggregate"
)

// TestRun: every kind of report is taken, counted and timed, in more than one part too.
func TestReportTimes(t *testing.T) {
	for _, proof := range []string{aggregate.NoProof, aggregate.RangeProof} {
		got, err := Run(t.Context(), Options{Clients: 20, Values: 30, Proof: proof, Dir: t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
		for role, s := range got.Sides {
			if !(s.Take > 0 && s.Sum > 0 && s.Intersect > 0) || (s.Verify > 0) != (proof != "") ||
				(s.RecordBytes > 0) != (proof != "") {
				t.Errorf("proof %q, %s: %+v", proof, role, s)
			}
		}
		if len(got.Sides) != 2 || got.ClientBytes["leader"] <= got.ClientBytes["helper"] ||
			!(got.Split > 0 && got.Seal > 0) {
			t.Errorf("proof %q: %+v", proof, got)
		}
	}
	for _, o := range []Options{{Clients: 1, Values: 3}, {Clients: 3}, {Clients: 3, Values: 1 << 30}, {Clients: 3,
		Values: 3, Proof: "none"}} {
		o.Dir = t.TempDir()
		if _, err := Run(t.Context(), o); err == nil {
			t.Errorf("%+v is timed", o)
		}
	}
}

// BenchmarkReports measures what clients and aggregators do for a report, on all cores. $POPRI_BENCH_CLIENTS is the
// number of clients (100).
func BenchmarkReports(b *testing.B) {
	clients := 100
	if n, err := strconv.Atoi(os.Getenv("POPRI_BENCH_CLIENTS")); err == nil {
		clients = n
	}
	for _, values := range []int{384, 1400, 18000} {
		for _, proof := range []string{aggregate.NoProof, aggregate.RangeProof} {
			b.Run(fmt.Sprintf("d=%d/proof=%s", values, proof), func(b *testing.B) {
				for b.Loop() {
					t, err := Run(b.Context(),
						Options{Clients: clients, Values: values, Proof: proof, Dir: b.TempDir()})
					if err != nil {
						b.Fatal(err)
					}
					b.ReportMetric(t.Split, "split/s")
					b.ReportMetric(t.Seal, "seal/s")
					b.ReportMetric(float64(t.ClientBytes["leader"]+t.ClientBytes["helper"]), "bytes/client")
					for role, s := range t.Sides {
						b.ReportMetric(s.Take, role+"-take/s")
						b.ReportMetric(s.Verify, role+"-verify/s")
						b.ReportMetric(s.Sum, role+"-sum/s")
					}
				}
			})
		}
	}
}
