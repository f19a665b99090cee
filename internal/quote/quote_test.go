package quote

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
)

func TestText(t *testing.T) {
	for text, want := range map[string]string{
		"":                       `""`,
		"a\nb":                   `"a\nb"`,
		strings.Repeat("x", 80):  `"` + strings.Repeat("x", 80) + `"`,
		strings.Repeat("x", 81):  `"` + strings.Repeat("x", 80) + `"… (81 bytes)`,
		strings.Repeat("é", 80):  `"` + strings.Repeat("é", 80) + `"`,
		strings.Repeat("é", 500): `"` + strings.Repeat("é", 80) + `"… (1000 bytes)`,
	} {
		if got := Text(text); got != want {
			t.Errorf("Text(%.20q…) = %s, want %s", text, got, want)
		}
	}
}

func TestRaw(t *testing.T) {
	for text, want := range map[string]string{
		"":                              "",
		" {\"a\":\n 1} ":                `{"a": 1}`,
		"\xff":                          "\uFFFD",
		strings.Repeat("[0],", 1000):    strings.Repeat("[0],", 20) + "… (4000 bytes)",
		strings.Repeat("x", 80) + "\n ": strings.Repeat("x", 80),
	} {
		if got := Raw(text); got != want {
			t.Errorf("Raw(%.20q…) = %s, want %s", text, got, want)
		}
	}
}

func TestErrorf(t *testing.T) {
	type name string
	long, path := strings.Repeat("x", 100), "/"+strings.Repeat("p", 100)
	shown := `"` + strings.Repeat("x", 80) + `"… (100 bytes)`
	for _, c := range []struct{ got, want string }{
		{Errorf("%s: %q is %d", path, long, 3).Error(), path + ": " + shown + " is 3"},
		{Errorf("%q %-4s|%v", name(long), "a", "b").Error(), shown + " a   |b"},
		{Sprintf("%q", []string{long, "y"}), "[" + shown + ` "y"]`},
		{Sprintf("%v %x %.2f", []int{1}, 255, 1.234), "[1] ff 1.23"},
	} {
		if c.got != c.want {
			t.Errorf("%s, want %s", c.got, c.want)
		}
	}
	if inner := errors.New("inner"); !errors.Is(Errorf("%q: %w", long, inner), inner) {
		t.Error("the wrapped error is lost")
	}
}

func TestJSON(t *testing.T) {
	var v struct{ A int8 }
	for _, content := range []string{`{"A": ` + strings.Repeat("1", 500) + `}`,
		`{"` + strings.Repeat("b", 500) + `": 1}`} {
		d := json.NewDecoder(strings.NewReader(content))
		d.DisallowUnknownFields()
		err := JSON(d.Decode(&v))
		if err == nil || len(err.Error()) > 200 || !strings.Contains(err.Error(), "json: ") {
			t.Errorf("%.20s…: %v", content, err)
		}
	}
	if JSON(nil) != nil {
		t.Error("no error became one")
	}
}

func TestList(t *testing.T) {
	if got := List([]string{"a", "b", "c"}, 2); got != "a, b and 1 more" {
		t.Error(got)
	}
	if got := List([]string{"a", strings.Repeat("y", 100)}, 2); len(got) > 3+mostShown+len("… (100 bytes)") {
		t.Error(got)
	}
}
