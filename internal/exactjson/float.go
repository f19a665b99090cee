package exactjson

import (
	"encoding/json"
	"math"
)

// Float is a float64 that becomes the string "inf" in JSON if it is +Inf.
type Float float64

// MarshalJSON writes a number, or "inf". NaN and -Inf are errors.
func (f Float) MarshalJSON() ([]byte, error) {
	if math.IsInf(float64(f), 1) {
		return []byte(`"inf"`), nil
	}
	return json.Marshal(float64(f))
}

// UnmarshalJSON reads a number, or "inf".
func (f *Float) UnmarshalJSON(b []byte) error {
	if string(b) == `"inf"` {
		*f = Float(math.Inf(1))
		return nil
	}
	return json.Unmarshal(b, (*float64)(f))
}
