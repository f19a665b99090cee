package run

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"popri/datasets/clients"
	"popri/internal/atomicfile"
	"popri/internal/fault"
	"popri/internal/filelock"
	"popri/internal/rundir"
	"popri/run/inputs"
)

// begin makes the folder of a new run with its inputs and its configuration. The configuration is written last and
// makes the folder a run's: of two processes that begin a run in one folder, one succeeds, and the other changes
// nothing.
func (s *Session) begin(began inputs.Inputs, o Options) error {
	if err := os.MkdirAll(s.Dir, 0o755); err != nil {
		return fault.Userf("the run's folder cannot be made: %w", err)
	}
	// Of two processes that begin in one folder, the later one must not write over the other's files.
	lock, err := filelock.Folder(s.Dir)
	if err != nil {
		return fault.Userf("the run's folder cannot be opened: %w", err)
	}
	defer lock.Release()
	if rundir.Exists(s.Dir) {
		return overtaken(s.Dir)
	}
	s.Config.Provenance, err = inputs.Provenance(s.Config,
		inputs.Origin{Inputs: began, Public: s.Data.Public.Name, Private: s.Data.Private.Name,
			Clients: s.budget.Clients, Unit: s.Data.Private.Unit,
			Validation: len(s.Data.Private.Split(clients.Validation)),
			Sigma:      s.Sigma, Title: o.Title, Command: o.Command})
	if err != nil {
		return err
	}
	if err = began.Write(s.Dir); err == nil {
		err = atomicfile.CreateBytes(filepath.Join(s.Dir, rundir.Config), s.Config.YAML(), 0o644)
	}
	switch {
	case errors.Is(err, fs.ErrExist):
		return overtaken(s.Dir)
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		return fault.Userf("the run's folder cannot be written to: %w", err)
	}
	return err
}

func taken(dir string) error {
	return fault.Userf("%s holds a run already: resume it (--resume) or name another folder", dir)
}

// overtaken is the error of a process that found the folder free when it started.
func overtaken(dir string) error {
	return fault.Userf("%s holds a run already, which another process has begun since this one started: name another "+
		"folder", dir)
}
