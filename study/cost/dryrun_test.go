package cost

import (
	"strings"
	"testing"

	"popri/accountant/ledger"
)

// A plan of public selection names as many rows as the run writes: those that are configured, or the standard number.
func TestPublishesSelected(t *testing.T) {
	c := configuration(t, 1)
	c.Method = "public_selection"
	for rows, want := range map[int]string{300: " 300 public texts", 0: " 16000 public texts"} {
		c.Synthetic.PublicTexts = rows
		if got := publishes(c, ledger.Budget{}, &DryRun{}, false)[0]; !strings.Contains(got, want) {
			t.Errorf("%d: %q, want %q", rows, got, want)
		}
	}
}
