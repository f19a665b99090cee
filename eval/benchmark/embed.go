package benchmark

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"

	"popri/internal/bom"
	"popri/internal/fault"
	"popri/model/embedding/torch"
	"popri/model/tensor"
)

// EmbedOptions name the encoder and the texts.
type EmbedOptions struct {
	Model string       // sentence-transformers folder
	Texts string       // JSON lines, {"text": "…"}
	N     int          // texts, from the first
	DType tensor.DType // of weights and products
}

// Embed times the encoding of texts to vectors, tokenizing included.
func Embed(o EmbedOptions) (*Result, error) {
	if o.N < 1 {
		return nil, fault.User(fmt.Errorf("%d texts: want at least 1", o.N))
	}
	texts, err := readTexts(o.Texts, o.N)
	if err != nil {
		return nil, fault.User(err)
	}
	e, err := torch.Open(o.Model, o.DType)
	if err != nil {
		return nil, fault.User(err)
	}
	defer e.Free()
	return measure("embed", o.DType.String(), "texts", func() (int, error) {
		m, err := e.Encode(texts)
		return m.Rows, err
	})
}

// readTexts reads the first n texts of a file of JSON lines.
func readTexts(path string, n int) ([]string, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	var texts []string
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<26)
	for len(texts) < n && lines.Scan() {
		var line struct {
			Text *string `json:"text"`
		}
		if err := json.Unmarshal(bom.Trim(lines.Bytes()), &line); err != nil {
			return nil, fmt.Errorf("%s line %d: %w", path, len(texts)+1, err)
		}
		if line.Text == nil {
			return nil, fmt.Errorf("%s line %d has no text", path, len(texts)+1)
		}
		texts = append(texts, *line.Text)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if len(texts) == 0 {
		return nil, fmt.Errorf("%s holds no texts", path)
	}
	return texts, nil
}
