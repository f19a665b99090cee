package methods

import (
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"popri/configs"
)

// The two ways in which a comment states a default: "Default 64, …" and "0, the default, …".
var stated = regexp.MustCompile(`\bDefault ("[^"]*"|\[\]|[^\s,;:]+)|("[^"]*"|\[\]|[^\s,;:("]+)"?, the default\b`)

// The comment of every setting states its default once, and it is what the preset demo sets.
func TestDefaultsInComments(t *testing.T) {
	comments, err := readComments()
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range configs.Keys() {
		comment := comments.Keys[k.Name]
		matches := stated.FindAllStringSubmatch(comment, -1)
		if len(matches) != 1 {
			t.Errorf("%s: the comment states %d defaults: %s", k.Name, len(matches), comment)
			continue
		}
		text := strings.TrimSuffix(matches[0][1]+matches[0][2], ".")
		if unquoted, err := strconv.Unquote(text); err == nil {
			text = unquoted
		}
		said := configs.Default()
		if err := said.Set(k.Name, text); err != nil {
			t.Errorf("%s: the comment says %q: %v", k.Name, text, err)
			continue
		}
		defaults := configs.Default()
		want, _ := defaults.Get(k.Name)
		if got, _ := said.Get(k.Name); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: the comment says %q, the preset sets %v", k.Name, text, want)
		}
	}
}
