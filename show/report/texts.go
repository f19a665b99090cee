package report

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"popri/show/texts"
)

//go:embed texts.js
var textsScript string

// script is the one script of the pages, with the hash by which their policy allows it and no other.
type script struct {
	Code template.JS
	Hash string
}

var pageScript = newScript(SaveScript + textsScript)

func newScript(code string) script {
	hash := sha256.Sum256([]byte(code))
	return script{template.JS(code), "'sha256-" + base64.StdEncoding.EncodeToString(hash[:]) + "'"}
}

// Policy is the page's content security policy: it loads nothing, and pictures that are saved come from data: and
// blob:.
func (s script) Policy() string {
	return "default-src 'none'; style-src 'unsafe-inline'; img-src data: blob:; script-src " + s.Hash
}

// Texts are the samples of a run for its browser of texts.
type Texts struct {
	Prompts []string // each text once; "" for one that is not stored
	Samples []Text
}

// Text is a sample. Its prompt is an index in [Texts.Prompts].
type Text struct {
	Round int // from 1, or BeforeTraining, or AfterTraining
	texts.Sample
}

// Rounds of texts that are not of a round: what the models write for the same prompts without and with the training.
const (
	BeforeTraining = 0
	AfterTraining  = 1 << 30
)

const (
	// maxEmbedded is the size of compressed texts up to which they are part of the report: a browser reads as much in
	// less than a second, and mail takes it. It is the size of about 200 000 short samples.
	maxEmbedded = 16 << 20
	// maxText is the length up to which a text is shown, far above what models write in a round.
	maxText = 20_000
)

// TextsFile is where the browser of texts is, if it is no part of the report at path.
func TextsFile(path string) string {
	return strings.TrimSuffix(path, filepath.Ext(path)) + "-texts.html"
}

// textsView is the browser of texts on a page.
type textsView struct {
	Count string
	Data  template.HTML // base64; "" if the browser is elsewhere, or there are no samples
	Link  string        // where it is
}

// packed is what the page's script reads: columns, because they compress better than rows.
type packed struct {
	Names   map[string]string `json:"names"` // of rounds that are no numbers
	Prompts []string          `json:"prompts"`
	Round   []int             `json:"round"`
	Prompt  []int             `json:"prompt"`
	Score   []json.RawMessage `json:"score"`
	Rank    []int             `json:"rank"`
	Mark    string            `json:"mark"` // a letter for each sample
	Text    []string          `json:"text"`
}

var letters = map[texts.Mark]byte{texts.None: ' ', texts.Chosen: 'c', texts.Rejected: 'r', texts.Both: 'b'}

// pack compresses the samples for the page's script.
func (t Texts) pack() (string, error) {
	p := packed{Names: map[string]string{strconv.Itoa(BeforeTraining): "before training",
		strconv.Itoa(AfterTraining): "after training"}}
	for _, prompt := range t.Prompts {
		p.Prompts = append(p.Prompts, texts.Visible(prompt, maxText))
	}
	var marks strings.Builder
	for _, s := range t.Samples {
		p.Round, p.Prompt, p.Rank = append(p.Round, s.Round), append(p.Prompt, s.Prompt), append(p.Rank, s.Rank)
		score := json.RawMessage("null")
		if finite(s.Score) {
			score = strconv.AppendFloat(nil, s.Score, 'g', 6, 64)
		}
		p.Score = append(p.Score, score)
		p.Text = append(p.Text, texts.Visible(s.Text, maxText))
		letter, ok := letters[s.Mark]
		if !ok {
			return "", fmt.Errorf("a sample has the mark %q", s.Mark)
		}
		marks.WriteByte(letter)
	}
	p.Mark = marks.String()
	var out bytes.Buffer
	zip := gzip.NewWriter(&out)
	if err := errors.Join(json.NewEncoder(zip).Encode(p), zip.Close()); err != nil {
		return "", err
	}
	return base64.StdEncoding.EncodeToString(out.Bytes()), nil
}

// texts puts the browser on the page, or writes it next to it if its data have more bytes than the limit, and removes
// an old one there.
func (p *page) texts(path string, t Texts, limit int) error {
	second := TextsFile(path)
	if len(t.Samples) > 0 {
		data, err := t.pack()
		if err != nil {
			return err
		}
		p.Texts = textsView{Count: count(len(t.Samples)), Data: template.HTML(data)}
		if len(data) > limit {
			if err := writePage(second, "page of texts", p); err != nil {
				return err
			}
			p.Texts.Data, p.Texts.Link = "", filepath.Base(second)
			return nil
		}
	}
	if err := os.Remove(second); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
