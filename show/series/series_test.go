package series

import (
	"encoding/json"
	"reflect"
	"testing"
)

func TestRoundsSurviveJSON(t *testing.T) {
	r := NewRound(3)
	r.Set("loss", 0.5)
	r.SetIf("fid", nil)
	r.SetIf("margin", new(-1.25))
	r.Add("score", 1)
	r.Add("score", 0.25)
	b, err := json.Marshal(r)
	if err != nil || string(b) != `{"loss":0.5,"margin":-1.25,"round":3,"score":1.25}` {
		t.Fatalf("%s (%v)", b, err)
	}
	var again Round
	if err := json.Unmarshal(b, &again); err != nil || !reflect.DeepEqual(again, *r) {
		t.Errorf("%+v (%v)", again, err)
	}
	if again.Get("fid") != nil || *again.Get("loss") != 0.5 ||
		!reflect.DeepEqual(again.Keys(), []string{"loss", "margin", "score"}) {
		t.Errorf("%+v", again)
	}
	// Older files have values that are no numbers.
	if err := json.Unmarshal([]byte(`{"round": 1, "stopped": true, "loss": 2}`), &again); err != nil ||
		len(again.Values) != 1 {
		t.Errorf("%+v (%v)", again, err)
	}
	for _, bad := range []string{`{}`, `{"round": "x"}`, `[]`, `{`} {
		if err := json.Unmarshal([]byte(bad), &again); err == nil {
			t.Errorf("%s is no error", bad)
		}
	}
}

func TestEveryMethodShowsThePrivacySpent(t *testing.T) {
	s := Set{Columns: []Series{{Key: "loss"}}}
	with := s.WithPrivacy()
	if len(s.Columns) != 1 || len(with.Columns) != 2 || with.Columns[1].Key != EpsilonKey || len(with.Plots) != 1 ||
		!with.Plots[0].Budget {
		t.Errorf("%+v", with)
	}
}
