// Package datacard makes a folder of a run's product that datasets.load_dataset of Hugging Face opens: the texts as
// Parquet, and a README.md with the dataset card. The card states the guarantee, the settings and the hashes of the
// files that prove them. A product that is a model is copied with a model card instead.
package datacard

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"popri/accountant/guarantee"
	"popri/internal/atomicfile"
	"popri/internal/fault"
	"popri/internal/rundir"
)

// The files of the folder.
const (
	Data = "data/train-00000-of-00001.parquet"
	Card = "README.md"
)

// Options say how the folder is made.
type Options struct {
	Name        string // of the data set; "" is the run's folder
	Program     string // the program's version
	License     string // an identifier of the hub, such as cc-by-4.0; "" leaves it to the publisher
	Language    string // such as en; "" leaves it out
	Unprotected bool   // allows a product of a run that protects nobody
	Force       bool   // replaces the folder of another run
	Model       bool   // writes the small model that was trained on the texts, in place of these
	Small       Small  // of the small model's card
}

// Result says what was written.
type Result struct {
	Folder    string `json:"folder"`
	Texts     int    `json:"texts"`            // rows
	Written   int    `json:"written"`          // rows that a language model wrote
	Public    int    `json:"public"`           // rows that are copies of public texts
	Distinct  int    `json:"distinct"`         // different texts
	Repeated  int    `json:"repeated"`         // rows of the most frequent text
	LeftOut   int    `json:"left_out"`         // empty texts
	SHA256    string `json:"sha256"`           // of the Parquet file
	Labels    int    `json:"labels,omitempty"` // different ones
	Guarantee string `json:"guarantee"`
}

// Write writes the synthetic set of a finished run to a folder. Each file is replaced as a whole; the card comes last.
func Write(run, out string, o Options) (r Result, err error) {
	r.Folder, o.Name = out, cmp.Or(o.Name, filepath.Base(filepath.Clean(run)))
	defer func() {
		if err != nil {
			err = fmt.Errorf("datacard: %w", err)
		}
	}()
	if err := atomicfile.CheckFolder(out); err != nil {
		return r, fault.User(err)
	}
	if !rundir.Exists(run) {
		return r, fault.Userf("%s is no run: it has no %s", run, rundir.Config)
	}
	facts, err := guarantee.ReadChosen(run)
	if err != nil {
		return r, err
	}
	if r.Guarantee = facts.Headline(); !facts.Protects() && !o.Unprotected {
		return r, fault.Userf("%s: %s", run, r.Guarantee)
	}
	if o.Model || !rundir.Has(run, rundir.Synthetic) && rundir.Has(run, rundir.Small) {
		if !rundir.Has(run, rundir.Small) {
			return r, fault.Userf("%s has no folder %s: popri eval --run trains the small model", run, rundir.Small)
		}
		if err := o.replaces(run, out); err != nil {
			return r, err
		}
		if r.SHA256, err = copyModel(run, out); err != nil {
			return r, err
		}
		return r, card{Options: o, Result: r, Facts: facts}.writeModel(run, out)
	}
	product, err := r.read(filepath.Join(run, rundir.Synthetic))
	if err != nil {
		return r, err
	}
	if err := o.replaces(run, out); err != nil {
		return r, err
	}
	t, err := write(filepath.Join(out, Data), product, r.Labels > 0)
	if err != nil {
		return r, err
	}
	if r.SHA256, err = atomicfile.SHA256(filepath.Join(out, Data)); err != nil {
		return r, err
	}
	return r, card{Options: o, Result: r, table: t, Facts: facts}.write("data", run, out)
}

// replaces refuses a folder whose card is not of this run.
func (o Options) replaces(run, out string) error {
	card, err := os.ReadFile(filepath.Join(out, Card))
	if errors.Is(err, fs.ErrNotExist) || o.Force {
		return nil
	}
	if err != nil {
		return err
	}
	hash, err := atomicfile.SHA256(filepath.Join(run, rundir.Config))
	if err == nil && !bytes.Contains(card, []byte(hash)) {
		err = fault.Userf("%s is not of the run %s: name another folder, or replace it by --force",
			filepath.Join(out, Card), run)
	}
	return err
}
