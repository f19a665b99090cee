package judge

import (
	"regexp"
	"slices"
	"strings"

	"popri/internal/numeric"
)

// Pattern counts what looks like personal data in the synthetic set, and how much of it clients have, too.
type Pattern struct {
	Name string `json:"name"`
	// Product is how often it occurs in the synthetic set, Different how many different ones do.
	Product   int `json:"product"`
	Different int `json:"different"`
	// Members, Controls and Public are how many of the different ones occur in their texts, letter for letter. Members
	// and controls are as many clients.
	Members  int `json:"members"`
	Controls int `json:"controls"`
	Public   int `json:"public"`
	// Alone are those that members have and neither controls nor public text.
	Alone []string `json:"alone"`
}

// patterns by which personal data is looked for. They find forms, not people: a made-up number looks like a real one.
var patterns = []struct {
	name  string
	find  *regexp.Regexp
	valid func(string) bool
}{
	{"mail addresses", regexp.MustCompile(`[\pL\pN._%+-]+@[\pL\pN-]+(?:\.[\pL\pN-]+)*\.\pL{2,}`), nil},
	{"web addresses", regexp.MustCompile(`(?:https?://|www\.)[^\s<>"')\]]+[^\s<>"')\].,;:!?]`), nil},
	{"telephone numbers", regexp.MustCompile(`(?:\+\d{1,3}[ .-]?)?(?:\(\d{1,5}\)[ .-]?)?\d{2,5}(?:[ .-]\d{2,5}){1,4}`),
		isTelephone},
	{"payment cards", regexp.MustCompile(`\b(?:\d[ -]?){13,19}\b`), isCard},
	{"IBANs", regexp.MustCompile(`\b[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,3})?\b`), isIBAN},
	{"IP addresses", regexp.MustCompile(`\b(?:(?:25[0-5]|2[0-4]\d|1?\d?\d)\.){3}(?:25[0-5]|2[0-4]\d|1?\d?\d)\b`), nil},
}

func digits(s string) string {
	return strings.Map(func(r rune) rune {
		if r < '0' || r > '9' {
			return -1
		}
		return r
	}, s)
}

// isTelephone takes 7 to 15 digits (E.164), and no dates.
func isTelephone(s string) bool {
	n := len(digits(s))
	return n >= 7 && n <= 15 && !date.MatchString(s)
}

var date = regexp.MustCompile(`^(?:\d{4}[ .-]\d{2}[ .-]\d{2}|\d{2}[ .-]\d{2}[ .-]\d{4}|\d{4}[ -]\d{4})$`)

// isCard is Luhn's check.
func isCard(s string) bool {
	d := digits(s)
	sum := 0
	for i := range len(d) {
		x := int(d[len(d)-1-i] - '0')
		if i%2 == 1 {
			if x *= 2; x > 9 {
				x -= 9
			}
		}
		sum += x
	}
	return sum%10 == 0 && strings.Trim(d, "0") != ""
}

// isIBAN is the check of ISO 13616: the number with its first four characters at the end is 1 modulo 97.
func isIBAN(s string) bool {
	s = strings.ReplaceAll(s, " ", "")
	rest := 0
	for _, c := range s[4:] + s[:4] {
		if c >= 'A' {
			rest = rest*100 + int(c-'A') + 10
		} else {
			rest = rest*10 + int(c-'0')
		}
		rest %= 97
	}
	return rest == 1
}

// occurrences are the matches in texts.
func occurrences(texts []string, find func(text string) []string) (all int, different map[string]bool) {
	different = map[string]bool{}
	for _, text := range texts {
		for _, s := range find(text) {
			all++
			different[s] = true
		}
	}
	return all, different
}

func (in Input) patterns() (out []Pattern) {
	n := min(len(in.Members), len(in.Controls))
	texts := func(clients []Client) []string {
		return slices.Concat(numeric.Map(clients, func(c Client) []string { return c.Texts })...)
	}
	members, controls := texts(some(in.Members, n, in.random("members"))), texts(some(in.Controls, n, in.random("controls")))
	allMembers, allControls := texts(in.Members), texts(in.Controls)
	add := func(name string, find func(string) []string) {
		p := Pattern{Name: name}
		all, product := occurrences(in.Product, find)
		p.Product, p.Different = all, len(product)
		_, a := occurrences(members, find)
		_, b := occurrences(controls, find)
		_, whole := occurrences(allMembers, find)
		_, others := occurrences(allControls, find)
		_, public := occurrences(in.Public, find)
		for s := range product {
			p.Members += one(a[s])
			p.Controls += one(b[s])
			p.Public += one(public[s])
			if whole[s] && !others[s] && !public[s] {
				p.Alone = append(p.Alone, s)
			}
		}
		slices.Sort(p.Alone)
		p.Alone = p.Alone[:min(len(p.Alone), mostFound)]
		out = append(out, p)
	}
	for _, k := range patterns {
		add(k.name, func(text string) []string {
			found := k.find.FindAllString(text, -1)
			if k.valid != nil {
				found = slices.DeleteFunc(found, func(s string) bool { return !k.valid(s) })
			}
			return found
		})
	}
	if len(in.Names) > 0 {
		names := map[string]bool{}
		longest := 1
		for _, name := range in.Names {
			if w := words(name); len(w) > 0 {
				names[strings.Join(w, " ")] = true
				longest = max(longest, len(w))
			}
		}
		add("names of the list", func(text string) (found []string) {
			w := words(text)
			for i := range w {
				for n := 1; n <= longest && i+n <= len(w); n++ {
					if name := strings.Join(w[i:i+n], " "); names[name] {
						found = append(found, name)
					}
				}
			}
			return found
		})
	}
	return out
}

func one(b bool) int {
	if b {
		return 1
	}
	return 0
}

// Canary is a planted text and the longest run of its words in the synthetic set.
type Canary struct {
	Text    string `json:"text"`
	Words   int    `json:"words"` // of the canary
	Run     int    `json:"run"`   // of them, in succession, in a text of the synthetic set
	Product int    `json:"product_row"`
}

func (in Input) canaries() (out []Canary) {
	v := vocabulary{}
	var product [][]uint32
	if len(in.Canaries) > 0 {
		for _, text := range in.Product {
			product = append(product, v.ids(text, true))
		}
	}
	for _, text := range in.Canaries {
		ids := v.ids(text, false)
		c := Canary{Text: text, Words: len(ids), Product: -1}
		for row, p := range product {
			for i := range ids {
				for j := range p {
					if n := common(ids[i:], p[j:]); n > c.Run {
						c.Run, c.Product = n, row
					}
				}
			}
		}
		out = append(out, c)
	}
	return out
}
