package target

import (
	"fmt"
	"strings"
	"testing"

	"popri/configs"
	"popri/datasets"
	"popri/internal/fault"
	"popri/methods/method"
	"popri/model/embedding"
)

// odd gives every text the same vector but one.
type odd struct {
	noEncoder
	text string
}

func (o odd) Encode(texts []string) (embedding.Matrix, error) {
	m := embedding.NewMatrix(len(texts), dim)
	for i, t := range texts {
		if m.Row(i)[0] = 1; t == o.text {
			m.Row(i)[1] = 1
		}
	}
	return m, nil
}

func TestCheck(t *testing.T) {
	e := method.Env{Config: configs.Default()}
	for i := range 1000 {
		e.Public.Generator = append(e.Public.Generator, datasets.Text{Text: fmt.Sprint(i)})
	}
	e.Encoder = odd{text: "900"}
	if err := Check(e); err != nil {
		t.Errorf("one text differs: %v", err)
	}
	e.Encoder = odd{}
	if err := Check(e); !fault.IsUser(err) || !strings.Contains(err.Error(), "1000 public texts are all alike") {
		t.Errorf("no text differs: %v", err)
	}
}
