package convert

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"

	"gopkg.in/yaml.v3"

	"popri/internal/fault"
)

// card is the front matter of a model's README.md, as far as it is exported.
type card struct {
	Name    string `yaml:"model_name"`
	License string `yaml:"license"`
	Base    names  `yaml:"base_model"`
}

// names is one name or a list of them.
type names []string

func (n *names) UnmarshalYAML(node *yaml.Node) error {
	if node.Kind == yaml.ScalarNode {
		*n = make(names, 1)
		return node.Decode(&(*n)[0])
	}
	return node.Decode((*[]string)(n))
}

func (f *Folder) card() (c card, err error) {
	file := filepath.Join(f.Dir, "README.md")
	b, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return c, nil
	}
	if parts := bytes.SplitN(append([]byte("\n"), b...), []byte("\n---"), 3); err == nil && len(parts) == 3 && len(parts[0]) == 0 {
		err = yaml.Unmarshal(parts[1], &c)
	}
	if err != nil {
		return c, fault.Userf("model export: %s: %w", file, err)
	}
	return c, nil
}

// phi3Name matches names by which llama.cpp knows the tokens of Phi-3, which take the white space behind them. No key
// says that of a token.
var phi3Name = regexp.MustCompile(`(?i)phi-?3`)

// general writes what a model is called and where it comes from. strips says that tokens take the white space behind
// them.
func (c *codec) general(said stated, strips bool) (name string, err error) {
	about, err := c.folder.card()
	if err != nil {
		return "", err
	}
	folder, err := filepath.Abs(c.folder.Dir)
	if err != nil {
		return "", fmt.Errorf("model export: %w", err)
	}
	name = filepath.Base(folder)
	if said.Name != "" {
		name = path.Base(said.Name)
	}
	name = cmp.Or(about.Name, name)
	if !strips {
		name = phi3Name.ReplaceAllString(name, "Phi 3")
	} else if !phi3Name.MatchString(name) {
		name += " Phi-3"
	}
	c.state("general.name", name)
	if about.License != "" {
		c.state("general.license", about.License)
	}
	if len(about.Base) > 0 {
		c.state("general.base_model.count", uint32(len(about.Base)))
	}
	for i, base := range about.Base {
		key := fmt.Sprintf("general.base_model.%d.", i)
		c.state(key+"name", path.Base(base))
		if owner := path.Dir(base); owner != "." {
			c.state(key+"organization", owner)
			c.state(key+"repo_url", "https://huggingface.co/"+base)
		}
	}
	return name, nil
}
