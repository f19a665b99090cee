package aggregate

import (
	"encoding/json"
	"fmt"
	"math"
	"os"

	"popri/internal/atomicfile"
	"popri/internal/fault"
	"popri/model/safetensors"
	"popri/scoring/query"
)

// Question is what the clients of a run are asked in a round, with all that a machine near them needs besides the
// encoder or the small model. It is public.
type Question struct {
	About   About
	Round   int // from 1
	Clients int // that are asked: the enrolled ones
	// Since leaves out older texts, as data.since does; "" leaves out none.
	Since string
	// Nonce is drawn once for each round of a run, so that no two runs ask by the same file.
	Nonce string
	// ID is the hex SHA-256 of the question's file.
	ID string
}

// About is what a question is about: [Embeddings] or [Updates].
type About interface {
	// Asked makes the question, which checks it.
	Asked() (query.Question, error)
	// file completes the head of the question's file, adds further metadata and returns the tensors.
	file(head) (metadata any, tensors []safetensors.Tensor)
}

// head begins the metadata of a question's file, whatever it is about.
type head struct {
	Format  string  `json:"format"`
	Round   int     `json:"round"`
	Query   string  `json:"query"`
	Key     string  `json:"key"`
	Bound   float64 `json:"norm_bound"`
	Clients int     `json:"clients"`
	Since   string  `json:"since"`
	Nonce   string  `json:"nonce,omitempty"` // older questions have none
}

// questionKey is the name of the metadata.
const questionKey = "popri.question"

// described is the metadata of a question's file.
type described interface {
	// read checks the metadata that stands after the head, and reads the tensors.
	read(*safetensors.File) (About, error)
}

var formats = map[string]func() described{embeddingsFormat: func() described { return &embedded{} },
	updatesFormat: func() described { return &training{} }}

// Write writes the question's file. The same question gives the same bytes.
func (q Question) Write(path string) error {
	metadata, tensors := q.About.file(head{Round: q.Round, Clients: q.Clients, Since: q.Since, Nonce: q.Nonce})
	content, err := json.Marshal(metadata)
	if err != nil {
		return fmt.Errorf("aggregate: the question of round %d: %w", q.Round, err)
	}
	return safetensors.Write(path, tensors, map[string]string{questionKey: string(content)})
}

// ReadQuestion reads a question's file and makes its query, which checks it.
func ReadQuestion(path string) (Question, query.Question, error) {
	q, err := readQuestion(path)
	if err != nil {
		if _, missing := os.Stat(path); missing != nil {
			return q, nil, fault.Userf("the question cannot be read: %w", missing)
		}
		return q, nil, fault.Userf("the question %s cannot be read: %w", path, err)
	}
	asked, err := q.About.Asked()
	if err != nil {
		return q, nil, fault.Userf("the question %s: %w", path, err)
	}
	return q, asked, nil
}

func readQuestion(path string) (q Question, err error) {
	if q.ID, err = atomicfile.SHA256(path); err != nil {
		return q, err
	}
	f, err := safetensors.Open(path)
	if err != nil {
		return q, err
	}
	defer f.Close()
	var h head
	metadata := []byte(f.Metadata()[questionKey])
	if err := json.Unmarshal(metadata, &h); err != nil {
		return q, fmt.Errorf("its metadata %s: %w", questionKey, err)
	}
	format := formats[h.Format]
	if err := (limits{
		{"format", h.Format, format != nil, fmt.Sprintf("%q or %q", embeddingsFormat, updatesFormat)},
		between("round", h.Round, 1, math.MaxInt32),
		between("clients", h.Clients, 1, maxClients),
		{"key", h.Key, h.Key != "", "what the question is about"},
	}).check(); err != nil {
		return q, err
	}
	q.Round, q.Clients, q.Since, q.Nonce = h.Round, h.Clients, h.Since, h.Nonce
	d := format()
	if err := json.Unmarshal(metadata, d); err != nil {
		return q, fmt.Errorf("its metadata %s: %w", questionKey, err)
	}
	q.About, err = d.read(f)
	return q, err
}

// limit is a value of metadata, whether it is possible, and what is.
type limit struct {
	key   string
	value any
	ok    bool
	want  string
}

type limits []limit

// between are the whole numbers from least to most.
func between(key string, value, least, most int) limit {
	return limit{key, value, value >= least && value <= most, fmt.Sprintf("%d to %d", least, most)}
}

// check names the first impossible value.
func (list limits) check() error {
	for _, l := range list {
		if !l.ok {
			return fmt.Errorf("%s is %.80q, want %s", l.key, fmt.Sprint(l.value), l.want)
		}
	}
	return nil
}
