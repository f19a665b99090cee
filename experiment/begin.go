package experiment

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"syscall"

	"popri/assembly"
	"popri/configs"
	"popri/datasets/clients"
	"popri/guarantee"
	"popri/internal/atomicfile"
	"popri/internal/fault"
	"popri/internal/modelcache"
	"popri/internal/version"
	"popri/methods"
	"popri/models"
	"popri/rundir"
	"popri/tensor"
)

// begin makes the folder of a new run with its inputs and its configuration. The configuration is written last and
// makes the folder a run's: of two processes that begin a run in one folder, one succeeds.
func (s *Session) begin(inputs Inputs, o Options) error {
	if err := os.MkdirAll(s.Dir, 0o755); err != nil {
		return fault.Userf("the run's folder cannot be made: %w", err)
	}
	if err := s.describe(inputs, o); err != nil {
		return err
	}
	err := inputs.write(s.Dir)
	if err == nil {
		err = atomicfile.CreateBytes(filepath.Join(s.Dir, rundir.Config), s.Config.YAML(), 0o644)
	}
	switch {
	case errors.Is(err, fs.ErrExist):
		return fault.Userf("%s holds a run already: resume it (--resume) or name another folder", s.Dir)
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		return fault.Userf("the run's folder cannot be written to: %w", err)
	}
	return err
}

// describe adds the versions of program and libraries, and the origin of model and data, to the configuration.
func (s *Session) describe(inputs Inputs, o Options) error {
	c := &s.Config
	c.Provenance = map[string]string{
		"go": runtime.Version(), "libtorch": version.Libtorch(), "program": version.Program(),
		"public": s.Public.Name, "public_sha256": inputs.Content[inputPublic],
		"private": s.Population.Name, "clients": fmt.Sprint(s.budget.Clients),
		"unit":             s.Population.Unit,
		"noise_multiplier": fmt.Sprintf("%.6g", s.Sigma), "encoder": inputs.Content[inputEncoder],
		"compute": inputs.Content[inputCompute], "threads": fmt.Sprint(tensor.Threads()),
		"device": tensor.DefaultDevice().String(),
	}
	used := *c
	if !methods.Of(*c).Selects {
		used.DPO.Best = configs.Default().DPO.Best
	}
	if !methods.Of(*c).ChoosesMix(*c) {
		used.Synthetic.Mix = configs.Default().Synthetic.Mix
	}
	validation := guarantee.ValidationUse(used, len(s.Population.Split(clients.Validation)))
	c.Provenance[guarantee.ValidationKey] = string(validation)
	for key, value := range map[string]string{"title": o.Title, "command": o.Command} {
		if value != "" {
			c.Provenance[key] = value
		}
	}
	if source, ok := modelcache.Find(c.Model.Path); ok {
		c.Provenance[guarantee.CorpusKey] = source.Title + " was trained on text of the web and on published source code. If " +
			"the clients' texts were published, what is private here may have been public there."
	}
	if c.Model.Path == "embedded" && c.Data.Private == "godoc" {
		// The Go release decides which file is private: the weights must be from the same release.
		p, err := models.ReadProvenance(models.Generator)
		if err != nil {
			return err
		}
		g, err := assembly.Embedded()
		if err != nil {
			return err
		}
		if p.CorpusHash != g.Public.Hash() {
			c.Provenance[guarantee.CorpusKey] = fmt.Sprintf(
				"The embedded weights were trained on the public part of %s, the clients are from %s: what is "+
					"private here may have been public there.", p.GoVersion, g.Public.Name)
		}
	}
	return nil
}
