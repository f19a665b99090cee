package inputs

import (
	"fmt"
	"runtime"

	"popri/accountant/guarantee"
	"popri/configs"
	"popri/internal/modelcache"
	"popri/internal/version"
	"popri/methods"
	"popri/model/shipped"
	"popri/model/tensor"
	"popri/run/assembly"
)

// Origin is what a run knows of itself when it begins, besides its configuration.
type Origin struct {
	Inputs          Inputs
	Public, Private string // names of the data
	Clients         int    // of the budget
	Unit            string // that the guarantee protects
	Validation      int    // number of validation clients
	Sigma           float64
	Title, Command  string // "" if the user gave none
	Shortened       string // what was left out so that the run takes less time; "" for nothing
}

// ShortenedKey is the name of [Origin.Shortened] in the configuration.
const ShortenedKey = "shortened"

// Provenance says what made a run: the versions of program and libraries, the machine's arithmetic, the origin of model
// and data, by the names under which the configuration keeps them for reports and citations.
func Provenance(c configs.Config, r Origin) (map[string]string, error) {
	p := map[string]string{
		"go": runtime.Version(), "libtorch": version.Libtorch(), "program": version.Program(),
		"public": r.Public, "public_sha256": r.Inputs.Content[publicKey],
		"private": r.Private, "clients": fmt.Sprint(r.Clients), "unit": r.Unit,
		"noise_multiplier": fmt.Sprintf("%.6g", r.Sigma), "encoder": r.Inputs.Content[encoderKey],
		"compute": r.Inputs.Content[computeKey], "threads": fmt.Sprint(tensor.Threads()),
		"device": tensor.DefaultDevice().String(),
	}
	used := c
	if !methods.Of(c).Pairs {
		used.DPO.Best = configs.Default().DPO.Best
	}
	if !methods.Of(c).ChoosesMix(c) {
		used.Synthetic.Mix = configs.Default().Synthetic.Mix
	}
	validation := guarantee.ValidationUse(used, r.Validation)
	p[guarantee.ValidationKey] = string(validation)
	for key, value := range map[string]string{"title": r.Title, "command": r.Command, ShortenedKey: r.Shortened} {
		if value != "" {
			p[key] = value
		}
	}
	if source, ok := modelcache.Find(c.Model.Path); ok {
		p[guarantee.CorpusKey] = source.Title + " was trained on text of the web and on published source code. If " +
			"the clients' texts were published, what is private here may have been public there."
	}
	if c.Model.Path == "embedded" && c.Data.Private == "godoc" {
		// The Go release decides which file is private: the weights must be from the same release.
		trained, err := shipped.ReadProvenance(shipped.Generator)
		if err != nil {
			return nil, err
		}
		g, err := assembly.Embedded()
		if err != nil {
			return nil, err
		}
		if trained.CorpusHash != g.Public.Hash() {
			p[guarantee.CorpusKey] = fmt.Sprintf(
				"The embedded weights were trained on the public part of %s, the clients are from %s: what is "+
					"private here may have been public there.", trained.GoVersion, g.Public.Name)
		}
	}
	return p, nil
}
