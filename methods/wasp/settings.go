package wasp

import (
	"slices"
	"strings"

	"popri/configs"
)

// Settings says how several generators write labelled text that the clients' votes compare (Zou et al. 2025), in the method
// "wasp". trainer.rounds is T: synthetic.texts / T texts are written in each of T parts, of which all but the last are
// voted on. Texts are drawn as the section generate says. data.public names the labels, and a client votes within
// the labels of its texts.
type Settings struct {
	// Generators are further models that write besides model.path: folders or names as there, or servers with a
	// completions API like OpenAI's, "https://host/#model", whose key is OPENAI_API_KEY in the environment; with
	// generate.chat they are asked by chats. A server gets the contents of prompts: public words and texts that
	// models wrote. Default [], one generator.
	Generators []string `yaml:"generators"`
	// Item is what a text is called in prompts, such as "movie review". Default "text".
	Item string `yaml:"item"`
	// Words are what labels are called in prompts, as "label=words": "pos=positive sentiment". Default []: a label is
	// called by its name, with spaces for its underscores.
	Words []string `yaml:"words"`
	// Attributes are what texts may be about besides their label, such as kinds of films; each prompt names one, drawn
	// at random. Default [], none.
	Attributes []string `yaml:"attributes"`
	// VotesFrom is "private", the clients' votes; "public", votes of the labelled public texts; or "written", votes
	// of the texts written so far. The latter make generators agree on what is good without any data, like FuseGen
	// (Zou et al. 2024, which compares small models instead). Neither "public" nor "written" asks a client or costs
	// privacy. Default "private".
	VotesFrom string `yaml:"votes_from" oneof:"private|public|written"`
	// Votes is Q: a text votes 1, 1/2, 1/4, … for the Q nearest texts of its label, and the same for the Q furthest.
	// Default 8, its paper's. 1 is the vote of Private Evolution. More let few clients tell more texts apart, at hardly
	// more noise. At most 64.
	Votes int `yaml:"votes" range:"[1, 64]"`
	// Contrast shows half good texts and half bad ones, and asks for one that is better than the good ones. Default
	// true; false shows good ones alone.
	Contrast bool `yaml:"contrast"`
	// Weights lets generators write in proportion to the votes of their texts. Default true; false gives each an equal
	// share.
	Weights bool `yaml:"weights"`
}

var settings = configs.Register("wasp", Settings{Item: "text", VotesFrom: "private", Votes: 8, Contrast: true,
	Weights: true}, check)

// most is S, the texts of a label with the most votes for near, and as many with the most for far, from which prompts
// draw; a prompt shows S of them. It is the published code's; more do not fit short contexts.
const most = 8

// words is what prompts call a label.
func (s Settings) words(label string) string {
	for _, entry := range s.Words {
		if name, words, _ := strings.Cut(entry, "="); name == label {
			return words
		}
	}
	return strings.ReplaceAll(label, "_", " ")
}

func check(r *configs.Report, c configs.Config, s Settings) {
	for i, g := range s.Generators {
		if url, model, _ := strings.Cut(g, "#"); g == "" || slices.Contains(s.Generators[:i], g) || g == c.Model.Path ||
			remote(g) && (model == "" || url == "") {
			r.Add("wasp.generators", "holds %q: each must be there once, besides model.path, and a server must name "+
				"its model (https://host/#model)", g)
		}
	}
	r.Text("wasp.item", s.Item, "what a text is called")
	for _, entry := range s.Words {
		if name, words, _ := strings.Cut(entry, "="); name == "" || strings.TrimSpace(words) == "" {
			r.Add("wasp.words", "holds %q, must be a label and its words: \"pos=positive sentiment\"", entry)
		}
	}
	for _, a := range s.Attributes {
		if strings.TrimSpace(a) == "" {
			r.Add("wasp.attributes", "holds %q, must be words", a)
		}
	}
}

// checkRun reports what the method needs of other settings, and cannot do.
func checkRun(r *configs.Report, c configs.Config) {
	const where = "where method is \"wasp\""
	if !c.Generate.ByLabel {
		r.Add("generate.by_label", "is false, must be true "+where+": texts are written for labels, and voted on within them")
	}
	if c.Trainer.Rounds < 2 {
		r.Add("trainer.rounds", "is %d, must be at least 2 "+where+": the last part is not voted on", c.Trainer.Rounds)
	}
	if c.Synthetic.Texts < c.Trainer.Rounds {
		r.Add("synthetic.texts", "is %d, must be at least trainer.rounds, %d, "+where, c.Synthetic.Texts, c.Trainer.Rounds)
	}
	r.Refuse(c, where+": a question with labels does not travel", "fed.clients", "aggregate.least")
}

// remote reports whether a generator is a server.
func remote(generator string) bool {
	return strings.HasPrefix(generator, "http://") || strings.HasPrefix(generator, "https://")
}
