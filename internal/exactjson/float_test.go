package exactjson_test

import (
	"encoding/json"
	"math"
	"testing"

	"popri/internal/exactjson"
)

func TestFloatRoundTrips(t *testing.T) {
	for want, f := range map[string]float64{`0`: 0, `0.1`: 0.1, `-3e+300`: -3e300, `"inf"`: math.Inf(1)} {
		got, err := json.Marshal(exactjson.Float(f))
		if err != nil || string(got) != want {
			t.Errorf("%g is written as %s, %v; want %s", f, got, err, want)
		}
		var back exactjson.Float
		if err := json.Unmarshal(got, &back); err != nil || float64(back) != f {
			t.Errorf("%s is read as %g, %v", got, back, err)
		}
	}
	for _, f := range []float64{math.NaN(), math.Inf(-1)} {
		if got, err := json.Marshal(exactjson.Float(f)); err == nil {
			t.Errorf("%g is written as %s", f, got)
		}
	}
}
