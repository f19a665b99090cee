package golden

import "testing"

// TestGoldenNotBuilt shows what is passed over, beside what the other tests checked.
func TestGoldenNotBuilt(t *testing.T) {
	Root(t)
	for _, kind := range NotBuilt {
		t.Logf("golden: not built yet: %s", kind)
	}
}
