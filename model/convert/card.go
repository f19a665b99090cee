package convert

import (
	"cmp"
	"fmt"
	"path"
	"path/filepath"
	"regexp"

	"popri/internal/fault"
	"popri/internal/hub"
)

// phi3Name matches names by which llama.cpp knows the tokens of Phi-3, which take the white space behind them. No key
// says so of a token.
var phi3Name = regexp.MustCompile(`(?i)phi-?3`)

// general writes what a model is called and where it comes from. strips says that tokens take the white space behind
// them.
func (c *codec) general(strips bool) (name string, err error) {
	card, err := hub.Card(c.folder.Dir)
	if err != nil {
		return "", fault.Userf("model export: %w", err)
	}
	folder, err := filepath.Abs(c.folder.Dir)
	if err != nil {
		return "", fmt.Errorf("model export: %w", err)
	}
	own, _ := c.folder.Stated["_name_or_path"].(string)
	title, _ := card["model_name"].(string)
	name = cmp.Or(title, path.Base(cmp.Or(own, filepath.ToSlash(folder))))
	if !strips {
		name = phi3Name.ReplaceAllString(name, "Phi 3")
	} else if !phi3Name.MatchString(name) {
		name += " Phi-3"
	}
	c.state("general.name", name)
	if license, ok := card["license"].(string); ok {
		c.state("general.license", license)
	}
	bases, ok := card["base_model"].([]any)
	if one := card["base_model"]; !ok && one != nil {
		bases = []any{one}
	}
	if len(bases) > 0 {
		c.state("general.base_model.count", uint32(len(bases)))
	}
	for i, base := range bases {
		key, id := fmt.Sprintf("general.base_model.%d.", i), fmt.Sprint(base)
		c.state(key+"name", path.Base(id))
		if owner := path.Dir(id); owner != "." {
			c.state(key+"organization", owner)
			c.state(key+"repo_url", "https://huggingface.co/"+id)
		}
	}
	return name, nil
}
