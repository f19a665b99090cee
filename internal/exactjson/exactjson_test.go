package exactjson

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
)

func TestFields(t *testing.T) {
	got, err := Fields([]byte(` {"a": [1, {"b": 2, "b": 3}], "A": "x", "": null} `))
	want := map[string]json.RawMessage{"a": json.RawMessage(`[1, {"b": 2, "b": 3}]`), "A": json.RawMessage(`"x"`),
		"": json.RawMessage("null")}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%s, %v", got, err)
	}
	for content, want := range map[string]string{
		"":                         "unexpected end",
		"[1]":                      "no JSON object",
		`"x"`:                      "no JSON object",
		"{":                        "end",
		`{"a": 1`:                  "end",
		`{"a" 1}`:                  "colon",
		`{"a": 1} {}`:              "something follows",
		`{"a": 1, "b": 2, "a": 1}`: `"a" stands twice`,
		`{"a": 1, "\u0061": 2}`:    `"a" stands twice`,
		"{\"a\": \"x\xff\"}":       "byte 8 of 11",
		`{"a": "x\ud800"}`:         "the escape at byte 8 is half of a surrogate pair",
		`{"a": "\ud800\u0041"}`:    "byte 7 is half",
		`{"\udc00\ud800": 1}`:      "byte 2 is half",
		`{"a": "\\\ud800`:          "byte 9 is half",
	} {
		if _, err := Fields([]byte(content)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", content, err, want)
		}
	}
}

// Pairs, escaped backslashes and U+FFFD itself are as the writer meant them.
func TestSurrogatePairs(t *testing.T) {
	for _, content := range []string{`{"a": "\ud83d\ude42"}`, `{"a": "\\ud800"}`, `{"a": "\ufffd�"}`,
		`{"a": "\u00e9\n"}`} {
		if _, err := Fields([]byte(content)); err != nil {
			t.Errorf("%s: %v", content, err)
		}
	}
}

func TestFieldsAreBounded(t *testing.T) {
	var b strings.Builder
	for i := range mostFields + 1 {
		fmt.Fprintf(&b, `,"%d":0`, i)
	}
	if _, err := Fields([]byte("{" + b.String()[1:] + "}")); err == nil ||
		!strings.Contains(err.Error(), "more than 65536 fields") {
		t.Error(err)
	}
}

func FuzzFields(f *testing.F) {
	f.Add([]byte(`{"a": 1, "b": {"c": []}}`))
	f.Add([]byte(`{"a": 1, "a": 2} x`))
	f.Add([]byte(`{"a": "\ud800\\\udfff"}`))
	f.Fuzz(func(t *testing.T, content []byte) {
		fields, err := Fields(content)
		if err != nil {
			return
		}
		var all map[string]json.RawMessage
		if err := json.Unmarshal(content, &all); err != nil || len(all) != len(fields) {
			t.Errorf("%q gives %d fields, encoding/json %d, %v", content, len(fields), len(all), err)
		}
	})
}

func TestTrim(t *testing.T) {
	for content, want := range map[string]string{"": "", "\ufeff": "", "\ufeffa": "a", "a\ufeff": "a\ufeff",
		"\ufeff\ufeffa": "\ufeffa", "\xef\xbb": "\xef\xbb"} {
		if got := string(TrimBOM([]byte(content))); got != want {
			t.Errorf("TrimBOM(%q) = %q, want %q", content, got, want)
		}
	}
}
