package clients

import (
	"fmt"
	"strings"
	"testing"
)

// A public text is a client's if it differs by its full stop, its case or a word in many; short texts and others are
// not.
func TestOverlap(t *testing.T) {
	long := func(i int) string {
		var words []string
		for k := range 40 {
			words = append(words, fmt.Sprintf("w%dx%d", i, k*i))
		}
		return strings.Join(words, " ") + "."
	}
	p := &Population{}
	for i := range 10 {
		split := Train
		if i%5 == 4 {
			split = Validation
		}
		p.Clients = append(p.Clients, Client{ID: fmt.Sprint(i), Split: split,
			Texts: []string{long(i + 1), "Thank you very much."}})
	}
	p.Clients[9].Texts = append(p.Clients[9].Texts, long(1)) // a train client's, too
	public := []string{
		strings.TrimSuffix(long(1), "."),                 // without its full stop
		strings.ToUpper(long(5)),                         // of a validation client
		long(2) + " And one more.",                       // nearly
		"Thank you very much.",                           // too short to tell
		long(100),                                        // nobody's
		strings.Join(strings.Fields(long(100))[5:], " "), // like another public text
	}
	const want = "3 of its 6 texts are texts of clients, or nearly (2 of train clients, 1 of validation clients)"
	if got := p.Overlap(public, 8).String(); got != want {
		t.Errorf("few public texts: %s", got)
	}
	for i := range 20 { // more public texts than private ones
		public = append(public, long(200+i))
	}
	if got := p.Overlap(public, 8).String(); got != strings.Replace(want, "6", "26", 1) {
		t.Errorf("many public texts: %s", got)
	}
}
