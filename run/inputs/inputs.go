// Package inputs records what a run began with, inputs.json, checks whether a run that is resumed would continue with
// the same, and says what made a run (provenance).
package inputs

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"popri/configs"
	"popri/datasets"
	"popri/internal/atomicfile"
	"popri/internal/fault"
	"popri/internal/quote"
	"popri/internal/rundir"
	"popri/methods"
	"popri/methods/method"
	"popri/model/lm"
	"popri/model/shipped"
	"popri/run/assembly"
)

// Inputs are everything that a run's results depend on, except private text, which the ledger identifies by a tag.
type Inputs struct {
	// Settings are the keys of the configuration with their values, except keys that change no result and keys that are
	// paths.
	Settings map[string]string `json:"settings"`
	// Content has a hash or name of each input that was read: the models' files, public text, the encoder, the compute
	// type.
	Content map[string]string `json:"content"`
	// Changes lists later changes that the user accepted.
	Changes []string `json:"changes,omitempty"`
}

// passing are the keys that may change when a run is resumed: they change no result, they are paths whose content is
// compared, or (model.dtype) their effect on the machine is compared.
var passing = []string{"model.threads", "model.device", "model.dtype", "model.path", "data.private", "data.public",
	"generate.batch_tokens", "generate.kinds", "scoring.encoder", "downstream.model",
	"privacy.continues", "eval.reference_private"}

// The keys of Content that are no files.
const (
	publicKey  = "data.public"
	encoderKey = "scoring.encoder"
	computeKey = "model.dtype"
	kindsKey   = "generate.kinds"
	HeldOut    = "data.private, validation and test clients" // a tag under the user's key; see datakey
)

// Of collects the inputs of a run: public is the hash of its public text, encoder the key of its encoder.
func Of(c configs.Config, public, encoder string) (Inputs, error) {
	in := Inputs{Settings: map[string]string{}, Content: map[string]string{publicKey: public, encoderKey: encoder,
		computeKey: assembly.ComputeType(c.Model.DType).String()}}
	further := methods.Of(c).Needs(c).Models
	for _, k := range configs.Keys() {
		path := slices.ContainsFunc(further, func(m method.Model) bool { return m.Key == k.Name })
		if !path && !slices.Contains(passing, k.Name) {
			v, _ := c.Get(k.Name)
			if k.Name == "generate.engine" && c.Generate.Server() != "" {
				v = "vllm" // wherever the server is
			}
			in.Settings[k.Name] = fmt.Sprint(v)
		}
	}
	if c.Generate.Kinds != "" {
		list, err := datasets.ReadKinds(c.Generate.Kinds)
		if err != nil {
			return in, err
		}
		in.Content[kindsKey] = fmt.Sprintf("%x", sha256.Sum256([]byte(strings.Join(list, "\n"))))
	}
	models := append([]method.Model{{Key: "model.path", Path: c.Model.Path, Name: shipped.Generator},
		{Key: "downstream.model", Path: c.Downstream.Model, Name: shipped.Device}},
		further...)
	for _, m := range models {
		dir, err := assembly.ModelDir(m.Path, m.Name)
		if err != nil {
			// Training does not need the small model, and the evaluation reports that it is missing. If it cannot be
			// looked at now, it may be there later, and would be another input.
			_, failed := errors.AsType[*fs.PathError](err)
			if m.Key == "downstream.model" && (!failed || errors.Is(err, fs.ErrNotExist)) {
				continue
			}
			return in, err
		}
		hashes, err := lm.Hashes(dir, "config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json",
			"chat_template.jinja") // which determine the model's computation
		if err != nil {
			return in, fault.User(err)
		}
		for name, hash := range hashes {
			in.Content[m.Key+" "+name] = hash
		}
	}
	return in, nil
}

// Write writes inputs.json into a run's folder.
func (in Inputs) Write(dir string) error {
	return atomicfile.WriteJSON(filepath.Join(dir, rundir.Inputs), in)
}

// Compare refuses to resume the run in dir if its inputs were others than these, unless the changes are accepted. They
// are recorded then, after accepted has done what follows from them.
func (in Inputs) Compare(dir string, accept bool, accepted func(Changed) error) error {
	var began Inputs
	err := atomicfile.ReadJSON(filepath.Join(dir, rundir.Inputs), &began)
	if errors.Is(err, fs.ErrNotExist) {
		return fault.Userf("%s has no %s, so what the run began with is not known: restore the file, or begin again in "+
			"another folder", dir, rundir.Inputs)
	}
	if err != nil {
		return fault.Userf("%w", err)
	}
	changes, changed := in.since(began)
	if len(changes) == 0 {
		return nil
	}
	if !accept {
		return fault.Userf("%s began with other inputs than it would continue with:\n  %s\n"+
			"Change them back, begin again in another folder, or accept this, which makes again what followed the rounds, by\n  %s",
			dir, strings.Join(changes, "\n  "), quote.Shell("popri", "run", "--resume", "--accept-changes", "--out", dir))
	}
	if err := accepted(changed); err != nil {
		return err
	}
	in.Changes = append(began.Changes, changes...)
	return in.Write(dir)
}

// standard reports whether a setting has its default value.
func standard(key, value string) bool {
	v, ok := configs.Default().Get(key)
	return ok && fmt.Sprint(v) == value
}

// Changed says which inputs are others, and whether the evaluation, or also the texts that were written, would be others.
// Another arithmetic makes neither wrong, nor does an input that is gone.
type Changed struct {
	Keys              []string
	Evaluation, Texts bool
}

// since lists in words how in differs from a run's first inputs.
func (in Inputs) since(began Inputs) (changes []string, c Changed) {
	differs := func(key, format string, args ...any) {
		changes = append(changes, fmt.Sprintf(format, args...))
		setting, _, _ := strings.Cut(key, " ")
		c.Keys = append(c.Keys, setting)
		switch {
		case key == computeKey:
		case key == HeldOut, strings.HasPrefix(key, "downstream."), strings.HasPrefix(key, "eval."):
			c.Evaluation = true
		default:
			c.Texts = true
		}
	}
	for _, key := range union(began.Settings, in.Settings) {
		old, had := began.Settings[key]
		value, has := in.Settings[key]
		switch {
		case old == value && had == has:
		case !had && standard(key, value): // a setting of a newer program, which does what the older one did
		case !had:
			differs(key, "%s is %s; the run began without this key", key, value)
		case !has:
			changes = append(changes, fmt.Sprintf("%s was %s; the program does not know this key", key, old))
		default:
			differs(key, "%s is %s, was %s", key, cmp.Or(value, `""`), cmp.Or(old, `""`))
		}
	}
	for _, key := range union(began.Content, in.Content) {
		old, had := began.Content[key]
		value, has := in.Content[key]
		what, file, isFile := strings.Cut(key, " ")
		switch {
		case old == value:
		case key == computeKey:
			differs(key, "%s: computes in %s, was %s", key, value, old)
		case key == HeldOut || key == publicKey:
			differs(key, "%s: the texts have changed", key)
		case key == kindsKey:
			differs(key, "%s: the list of kinds of text has changed", key)
		case !isFile:
			differs(key, "%s: the encoder has other weights or settings, or was fitted to other text", key)
		case !has:
			changes = append(changes, fmt.Sprintf("%s: %s is gone", what, file))
		case !had:
			differs(key, "%s: %s is new", what, file)
		default:
			differs(key, "%s: the content of %s has changed", what, file)
		}
	}
	return changes, c
}

func union(a, b map[string]string) []string {
	keys := slices.AppendSeq(slices.Collect(maps.Keys(a)), maps.Keys(b))
	slices.Sort(keys)
	return slices.Compact(keys)
}
