// Package evaluation is the outcome of an evaluation, eval.json: what small models that were trained on a run's text,
// and on the texts that it is compared with, reach on the test clients. Package evaluator makes it; reports, trackers
// and studies read it.
package evaluation

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"popri/configs"
	"popri/eval/domain"
	"popri/eval/downstream"
	"popri/internal/atomicfile"
	"popri/internal/rundir"
)

// The keys of the results besides ε = 0 and ε = ∞, which package downstream has, and the method's name, which is the
// key of the synthetic set's.
const (
	KeyUntuned   = "untuned"
	KeyPublicAll = "public_all"
	KeyInDomain  = "public_domain"
	// KeyUntrained is what the model writes without training, with the same draws of prompts, the same weights on texts and
	// the same public texts. Where prompts quote scored samples, it quotes its own, of as many rounds.
	KeyUntrained = "untrained"
	// Of a product that holds public texts and texts that the model wrote, each part by itself.
	KeySelected = "selected"
	KeyWritten  = "written"
	// KeyText is the key of text that comes from no run.
	KeyText = "text"
)

// SeenSuffix follows the name of texts that the generator was trained on.
const SeenSuffix = " that the generator saw"

// Outcome is the content of eval.json.
type Outcome struct {
	Results []downstream.Result `json:"results"`
	Clients int                 `json:"test_clients"`
	Seed    uint64              `json:"seed"`
	// Task is the configuration's task, and Labels the number of labels of a classification; "" and 0 for next tokens.
	Task   string `json:"task,omitempty"`
	Labels int    `json:"labels,omitempty"`
	// Small are the settings of the small model (downstream.*), by their names.
	Small map[string]string `json:"small_model,omitempty"`
	// Typed are beginnings of the synthetic set's texts after which small models suggest words ([downstream.Result.Suggested]).
	Typed []string `json:"typed,omitempty"`
	// Notes are sentences about what limits the figures.
	Notes []string `json:"notes,omitempty"`
	// Protocol says, in a clause, how every model was trained.
	Protocol string `json:"protocol"`
	// PublicDistance says how far public text is from the clients; nil if only part of the table was asked for.
	PublicDistance *domain.Distance `json:"public_distance,omitempty"`
	// OutsideEpsilon says which figures the guarantee does not cover; "" if none depends on the train clients.
	OutsideEpsilon string `json:"outside_epsilon,omitempty"`
}

// SmallOf are the settings of a configuration's small model.
func SmallOf(c configs.Config) map[string]string {
	of := map[string]string{}
	for _, k := range configs.Keys() {
		if strings.HasPrefix(k.Name, "downstream.") {
			v, _ := c.Get(k.Name)
			if list, ok := v.([]string); ok {
				v = strings.Join(list, ",")
			}
			of[k.Name] = fmt.Sprint(v)
		}
	}
	return of
}

// Differs lists the settings of the small model that the figures are of, where they are not a configuration's. Keys that
// an earlier version did not know do not count.
func (e *Outcome) Differs(c configs.Config) (settings []string) {
	now := SmallOf(c)
	for _, key := range slices.Sorted(maps.Keys(e.Small)) {
		if now[key] != e.Small[key] {
			settings = append(settings, key+"="+e.Small[key])
		}
	}
	return settings
}

// Config is a run's configuration with the small model that the figures are of.
func (e *Outcome) Config(c configs.Config) (configs.Config, error) {
	for _, key := range slices.Sorted(maps.Keys(e.Small)) {
		if err := c.Set(key, e.Small[key]); err != nil {
			return c, err
		}
	}
	return c, nil
}

// RunConfig reads a run's configuration, with the small model that its figures are of where it was evaluated.
func RunConfig(run string) (configs.Config, error) {
	c, err := configs.Load(configs.LoadOptions{File: filepath.Join(run, rundir.Config)})
	if err != nil {
		return configs.Config{}, err
	}
	e, err := Read(run)
	if e == nil {
		return *c, err
	}
	return e.Config(*c)
}

// HasReference reports whether a model was trained on the train clients' own text.
func (e *Outcome) HasReference() bool { return e.Result(downstream.Private) != nil }

// NoGap says why no result has a share of the gap closed; "" if one has.
func (e *Outcome) NoGap() string {
	public, private := e.Result(downstream.Public), e.Result(downstream.Private)
	switch {
	case slices.ContainsFunc(e.Results, func(r downstream.Result) bool { return r.GapClosed != nil }):
		return ""
	case private == nil:
		return "The table has no row ε = ∞ and no share of the gap closed: both are exact functions of the train " +
			"clients' texts. Where these are public or test data, eval.reference_private=true shows them."
	case public != nil && private.Accuracy <= public.Accuracy:
		return "The table has no share of the gap closed: the clients' own text (ε = ∞) teaches no more than ε = 0 " +
			"knows, so there is no gap."
	}
	return "The table has no share of the gap closed: no other text was compared with ε = 0 and ε = ∞."
}

// Result returns the result with the given key, or nil.
func (e *Outcome) Result(key string) *downstream.Result {
	for i := range e.Results {
		if e.Results[i].Key == key {
			return &e.Results[i]
		}
	}
	return nil
}

// Classifies reports whether the small models gave texts labels.
func (e *Outcome) Classifies() bool { return e.Task == configs.Classification }

// Write writes eval.json into a folder.
func (e *Outcome) Write(dir string) error {
	return atomicfile.WriteJSON(filepath.Join(dir, rundir.Eval), e)
}

// Read reads a run's eval.json; nil if it is not there.
func Read(dir string) (*Outcome, error) {
	var e Outcome
	if there, err := atomicfile.ReadJSONIfAny(filepath.Join(dir, rundir.Eval), &e); !there {
		return nil, err
	}
	if e.Protocol == "" { // of an earlier version
		e.Protocol = "takes the same number of steps; the one with the least loss on the validation clients is used"
	}
	return &e, nil
}
