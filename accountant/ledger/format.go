package ledger

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"

	"popri/internal/exactjson"
)

// The lines of a ledger, without their hash.
type (
	budgetRecord struct {
		Type    string          `json:"type"`
		Epsilon exactjson.Float `json:"epsilon"` // in place of the budget's, because it may be infinite
		Budget
		Continues string `json:"continues"` // last hash of the ledger whose charges follow
		Previous  string `json:"previous"`
	}
	chargeRecord struct {
		Type string `json:"type"`
		Entry
		EpsilonSpent exactjson.Float `json:"epsilon_spent"` // after this charge
		Previous     string          `json:"previous"`
	}
	continuedRecord struct {
		Type     string `json:"type"`
		By       string `json:"by"` // hash of the first line of the ledger that continues this one
		Previous string `json:"previous"`
	}
)

func (b Budget) record(continues string) func(previous string) any {
	return func(previous string) any {
		return budgetRecord{"budget", exactjson.Float(b.Epsilon), b, continues, previous}
	}
}

func (e Entry) record(spent float64) func(previous string) any {
	return func(previous string) any { return chargeRecord{"charge", e, exactjson.Float(spent), previous} }
}

const (
	hashKey    = `,"hash":"`
	hashSuffix = len(hashKey) + 2*sha256.Size + len(`"}`)
)

// seal makes a line, with its line break, and returns its hash.
func seal(record func(previous string) any, previous string) (line []byte, hash string) {
	body, err := json.Marshal(record(previous))
	if err != nil {
		panic(fmt.Sprintf("ledger: record of validated numbers: %v", err)) // a bug: callers validate
	}
	sum := sha256.Sum256(body)
	hash = hex.EncodeToString(sum[:])
	return []byte(string(body[:len(body)-1]) + hashKey + hash + "\"}\n"), hash
}

// unseal checks a line, without its line break, against its hash and returns the rest and the hash.
func unseal(line []byte) (body []byte, hash string, err error) {
	cut := len(line) - hashSuffix
	if cut < 1 || !bytes.HasPrefix(line[cut:], []byte(hashKey)) || !bytes.HasSuffix(line, []byte(`"}`)) {
		return nil, "", fmt.Errorf("it does not end in a hash")
	}
	hash = string(line[cut+len(hashKey) : len(line)-2])
	body = append(bytes.Clone(line[:cut]), '}')
	if sum := sha256.Sum256(body); hex.EncodeToString(sum[:]) != hash {
		return nil, "", fmt.Errorf("its hash does not fit: it was changed")
	}
	return body, hash, nil
}

// content is a parsed ledger.
type content struct {
	Record
	size       int  // bytes of all lines that count
	unfinished bool // the last of these has no line break
}

func (c content) lines() int { return len(c.Hashes) }

// parse reads a whole ledger.
func parse(b []byte) (content, error) {
	var c content
	for number := 1; len(b) > c.size; number++ {
		line, _, ended := bytes.Cut(b[c.size:], []byte("\n"))
		body, hash, err := unseal(line)
		if err != nil {
			if !ended && number > 1 {
				break // torn by a crash; Charge never returned for it
			}
			return c, fmt.Errorf("%w: line %d: %w", ErrDamaged, number, err)
		}
		if err := c.add(number, body); err != nil {
			return c, fmt.Errorf("%w: line %d: %w", ErrDamaged, number, err)
		}
		c.Hashes = append(c.Hashes, hash)
		c.size += len(line)
		if ended {
			c.size++
		} else {
			c.unfinished = true
			break
		}
	}
	if len(c.Hashes) == 0 {
		return c, fmt.Errorf("%w: it is empty", ErrDamaged)
	}
	return c, nil
}

func (c *content) add(number int, body []byte) error {
	if number == 1 {
		var r budgetRecord
		if err := strict(body, &r); err != nil {
			return err
		}
		if r.Type != "budget" || r.Previous != "" {
			return fmt.Errorf("a ledger starts with its budget, this with %q", r.Type)
		}
		c.Budget = r.Budget
		c.Budget.Epsilon = float64(r.Epsilon)
		c.Continues = r.Continues
		return c.Budget.Validate()
	}
	if c.ContinuedBy != "" {
		return fmt.Errorf("it stands after the line that says that the ledger is continued elsewhere")
	}
	var kind struct {
		Type string `json:"type"`
	}
	if err := json.Unmarshal(body, &kind); err != nil {
		return err
	}
	follows := func(previous string) error {
		if previous != c.Head() {
			return fmt.Errorf("it does not follow the line before: it names %.12q, that has %.12q", previous, c.Head())
		}
		return nil
	}
	switch kind.Type {
	case "charge":
		var r chargeRecord
		if err := strict(body, &r); err != nil {
			return err
		}
		if err := follows(r.Previous); err != nil {
			return err
		}
		e := r.Entry
		if err := e.validate(c.Budget); err != nil {
			return err
		}
		if err := e.follows(c.Entries); err != nil {
			return err
		}
		if e.Inherited && (c.Continues == "" || len(c.Entries) > 0 && !c.Entries[len(c.Entries)-1].Inherited) {
			return fmt.Errorf("it is an inherited charge where none can be")
		}
		c.Entries, c.Totals = append(c.Entries, e), append(c.Totals, float64(r.EpsilonSpent))
	case "continued":
		var r continuedRecord
		if err := strict(body, &r); err != nil {
			return err
		}
		if !isHash(r.By) {
			return fmt.Errorf("it is continued by %q, want a hash", r.By)
		}
		if err := follows(r.Previous); err != nil {
			return err
		}
		c.ContinuedBy = r.By
	default:
		return fmt.Errorf("type is %q, want \"charge\" or \"continued\"", kind.Type)
	}
	return nil
}

func strict(body []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return err
	}
	if d.More() {
		return fmt.Errorf("something follows the object")
	}
	return nil
}

func isHash(s string) bool {
	return len(s) == 2*sha256.Size && strings.Trim(s, "0123456789abcdef") == ""
}
