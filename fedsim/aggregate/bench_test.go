package aggregate

import (
	"crypto/ed25519"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"testing"

	"popri/accountant"
	"popri/accountant/ledger"
)

// BenchmarkReports measures what a client does for a report, how many reports a second an aggregator takes, and how many it sums
// up, on all cores. $POPRI_BENCH_CLIENTS is the number of clients (500).
func BenchmarkReports(b *testing.B) {
	clients := 500
	if n, err := strconv.Atoi(os.Getenv("POPRI_BENCH_CLIENTS")); err == nil {
		clients = n
	}
	for _, values := range []uint64{384, 1400, 18000} {
		w := large(b, clients, values)
		b.Run(fmt.Sprintf("client/d=%d", values), func(b *testing.B) {
			steps := make([]int64, values)
			for b.Loop() {
				for role, share := range w.split(0, steps) {
					w.must(Seal(w.asked, role, w.public[role], w.clients[0], share))
				}
			}
			b.ReportMetric(float64(MaxReport(w.asked, Leader)+MaxReport(w.asked, Helper)), "bytes/report")
		})
		for _, role := range Roles {
			round := 0
			for _, stage := range []string{"take", "sum"} {
				b.Run(fmt.Sprintf("%s/%s/d=%d", stage, role, values), func(b *testing.B) {
					b.StopTimer()
					for range b.N {
						round++
						w.asked.Nonce = fmt.Sprint(role, round)
						if err := w.sides[role].Announce(w.asked.Encode()); err != nil {
							b.Fatal(err)
						}
						reports := make([][]byte, clients)
						parallel(clients, func(i int) { reports[i] = w.report(i, role, make([]int64, values)) })
						measured(b, stage == "take", func() {
							parallel(clients, func(i int) {
								if err := w.sides[role].Accept(reports[i]); err != nil {
									b.Error(err)
								}
							})
						})
						ids := w.must(w.sides[role].IDs(w.asked.ID())).([]ReportID)
						measured(b, stage == "sum", func() {
							if err := w.sides[role].Aggregate(w.asked.ID(), ids); err != nil {
								b.Fatal(err)
							}
						})
					}
					b.ReportMetric(float64(b.N*clients)/b.Elapsed().Seconds(), "reports/s")
				})
			}
		}
	}
}

func measured(b *testing.B, counts bool, do func()) {
	if counts {
		b.StartTimer()
		defer b.StopTimer()
	}
	do()
}

// parallel does something n times on all cores.
func parallel(n int, do func(i int)) {
	var done sync.WaitGroup
	workers := runtime.GOMAXPROCS(0)
	for w := range workers {
		done.Go(func() {
			for i := w; i < n; i += workers {
				do(i)
			}
		})
	}
	done.Wait()
}

// large is a world of many clients with long vectors.
func large(b *testing.B, clients int, values uint64) *world {
	w := newWorld(b, true)
	w.asked.Clients, w.asked.Values, w.asked.Least = uint64(clients), values, 2
	w.clients = nil
	var enrolled []ed25519.PublicKey
	for i := range clients {
		seed := sha256.Sum256(fmt.Append(nil, i))
		w.clients = append(w.clients, ed25519.NewKeyFromSeed(seed[:]))
		enrolled = append(enrolled, w.clients[i].Public().(ed25519.PublicKey))
	}
	for _, role := range Roles {
		c := w.configs[role]
		c.Enrolled, c.Dir = enrolled, b.TempDir()
		c.Ledger = w.must(ledger.Create(filepath.Join(b.TempDir(), "ledger"), ledger.Budget{Epsilon: 1e9, Delta: 1e-9,
			Mechanism: "gaussian",
			Unit:      "a client", Relation: accountant.ZeroOut, Clients: clients, InsecureSeededNoise: true})).(*ledger.Ledger)
		b.Cleanup(func() { c.Ledger.Close() })
		w.configs[role] = c
		w.open(role)
	}
	return w
}
