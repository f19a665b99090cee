package configs

import (
	"bytes"
	"errors"

	"gopkg.in/yaml.v3"
)

// Config holds every setting of a run. [Default] gives the values of the preset "demo", which are the defaults that the
// comments state.
type Config struct {
	// Seed is the seed of every stream of random numbers except the privacy noise: prompts, sampling, initial adapters,
	// order of the pairs, the bootstrap. Default 1; 0 is a seed like any other.
	Seed uint64 `yaml:"seed"`
	// Method names what a run does with the clients' answers: one of the methods below. Default "popri".
	Method string `yaml:"method"`

	Data       Data       `yaml:"data"`
	Model      Model      `yaml:"model"`
	Generate   Generate   `yaml:"generate"`
	Scoring    Scoring    `yaml:"scoring"`
	Fed        Fed        `yaml:"fed"`
	Aggregate  Aggregate  `yaml:"aggregate"`
	Privacy    Privacy    `yaml:"privacy"`
	LoRA       LoRA       `yaml:"lora"`
	Optimizer  Optimizer  `yaml:"optimizer"`
	DPO        DPO        `yaml:"dpo"`
	Trainer    Trainer    `yaml:"trainer"`
	Synthetic  Synthetic  `yaml:"synthetic"`
	Downstream Downstream `yaml:"downstream"`
	Eval       Eval       `yaml:"eval"`

	// Provenance holds what a run adds to its own config.yaml: versions and hashes of program, model and data. Loading
	// accepts it, so that one run's file can configure another, and ignores it.
	Provenance map[string]string `yaml:"provenance,omitempty"`

	registered map[string]any // values of the registered sections, by name; what is not there has its defaults
}

// Trainer says how long the training is.
type Trainer struct {
	// Rounds is T, the number of rounds. Default 4; fewer leave the texts less like the clients'. With scoring.release
	// "rounds", the noise of a round grows as √T. "auto" stands for 32 with a Patience of 3 and Select "distance":
	// rounds continue as long as the samples come nearer.
	Rounds int `yaml:"rounds" range:"[1, 2^20]"`
	// Select says which adapters write the synthetic set. "last" is the last round. "distance" is the round whose
	// samples have the least released distance from the clients' mean embedding; it needs scoring.release "once" and
	// costs no privacy. "fid" is the round with the least Fréchet distance from the validation clients' texts, as in
	// the paper; it is computed without noise, so validation clients are not protected, and reports say so. Distances
	// are measured before a round, for the last adapters on samples of one more. dp_fedavg, dp_ftrl, ctcl and word_pairs
	// have "last" and "validation", the model or table with the least loss on the validation clients, as which "fid" counts.
	// Methods without adapters ignore it, and Patience. Default "last".
	Select string `yaml:"select" oneof:"last|distance|fid|validation"`
	// Patience ends the rounds before the last one: after this number of rounds in a row in which the figure that
	// Select goes by did not fall below its last fall by more than chance. Rounds is then the most that are done, and
	// the rate of a schedule falls as if all were. Default 0: all rounds are done. 3 or more: distances of single
	// rounds go up and down.
	Patience int `yaml:"patience" range:"[0, 2^20]"`
}

// ValidationLoss is the figure of a round that the methods which train the small model are chosen by: nats a token.
const ValidationLoss = "validation_loss"

// SelectsBy is the figure of a round by which trainer.select chooses the adapters that write the synthetic set; "" for the
// last ones and where the method trains none.
func (c Config) SelectsBy() string {
	if c.AtClients() && (c.Trainer.Select == "validation" || c.Trainer.Select == "fid") {
		return ValidationLoss
	}
	if c.Trainer.Select == "last" || !c.tunes() {
		return ""
	}
	return c.Trainer.Select
}

// Synthetic says what the run produces.
type Synthetic struct {
	// Texts is the number of texts that the model writes. Default 4000. More cost time and no privacy.
	Texts int `yaml:"texts" range:"[1, 2^30]"`
	// PublicTexts is the number of rows of the synthetic set that are public texts, drawn by their weights
	// (public_selection). It needs scoring.release "once". Default 16000; 0 is none. With the method public_selection
	// they are the whole set, and 0 stands for 16000.
	PublicTexts int `yaml:"public_texts" range:"[0, 2^30]"`
	// Kept is the fraction of the written texts that carry weight. Below 1, the set's rows are drawn from the written
	// texts by weights with which their mean embedding comes near the clients', and Kept is the least effective share
	// of texts that these weights leave. It needs scoring.release "once". Default 1, which takes each text once.
	Kept float64 `yaml:"kept" range:"(0, 1]"`
	// Mix says which rows are the set: "fixed", the rows named above; or "validated", the best of these, of the
	// written rows alone and of 16000 public texts alone. The accuracy of a small model (section downstream) on the
	// validation clients decides; they are not protected. It takes three trainings of the small model. Far public
	// text dilutes the model's text, and near public text is better than it. Default "fixed".
	Mix string `yaml:"mix" oneof:"fixed|validated"`
	// Samples is the number of texts of each prompt. Default 4: reading a prompt costs about as much as writing a text,
	// so 1 takes twice the time and gives slightly more variety.
	Samples int `yaml:"samples" range:"[1, 2^16]"`
	// Temperature is as in generate. Default 0.9, which gives slightly more correct and less varied text than 1.
	Temperature float64 `yaml:"temperature" range:"(0, 100]"`
}

// YAML returns every key with its value, in the order of [Keys].
func (c Config) YAML() []byte {
	var document yaml.Node
	err := document.Encode(c)
	for _, s := range registry {
		var name, values yaml.Node
		err = errors.Join(err, name.Encode(s.name), values.Encode(c.section(s)))
		document.Content = append(document.Content, &name, &values)
	}
	var out bytes.Buffer
	encoder := yaml.NewEncoder(&out)
	encoder.SetIndent(2)
	// Encoding plain fields cannot fail, nor can writing to memory.
	if err := errors.Join(err, encoder.Encode(&document)); err != nil {
		panic(err)
	}
	return out.Bytes()
}
