package grid

import (
	"bytes"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"popri/configs"
	"popri/internal/atomicfile"
	"popri/internal/datakey"
	"popri/internal/fault"
	"popri/internal/version"
)

// Plan is what the tasks of an ablation on a cluster share. It is in the ablation's folder:
//
//	jobs/plan.json        this
//	jobs/base.yaml        the base configuration
//	jobs/cells/0003.yaml  the checked configuration of a cell
//
// A cell keeps its number when the ablation is extended: tasks may still be waiting for it.
type Plan struct {
	// ID distinguishes this ablation from others in the names of jobs.
	ID string `json:"id"`
	Varied
	Cells []plannedCell `json:"cells"`
	// Base is the SHA-256 of base.yaml.
	Base string `json:"base_sha256"`
	// Key shows whether a task has the key for tags of private data that the ablation was planned with.
	Key     string `json:"key"`
	Program string `json:"program"` // the version that checked the configurations

	dir string // of the ablation
}

// plannedCell is a cell of a plan.
type plannedCell struct {
	Name   string `json:"name"`
	Config string `json:"config_sha256"`
}

// PlanDir is the folder for what the tasks of the ablation in dir share.
func PlanDir(dir string) string { return filepath.Join(dir, "jobs") }

func planPath(dir string) string { return filepath.Join(PlanDir(dir), "plan.json") }
func basePath(dir string) string { return filepath.Join(PlanDir(dir), "base.yaml") }

func cellPath(dir string, number int) string {
	return filepath.Join(PlanDir(dir), "cells", fmt.Sprintf("%04d.yaml", number))
}

// WritePlan plans the cells of a grid in the ablation's folder, or adds them to the plan that is there. It refuses cells
// whose names are planned with other settings. numbers are the cells' numbers in the plan. plan.json is written last.
func WritePlan(dir string, base configs.Config, varied Varied, cells []Cell) (p *Plan, numbers []int, err error) {
	if p, err = ReadPlan(dir); errors.Is(err, fs.ErrNotExist) {
		p, err = &Plan{ID: strings.ToLower(rand.Text()[:10])}, nil
	}
	if err != nil {
		return nil, nil, err
	}
	p.dir, p.Varied, p.Program = dir, varied, version.Program()
	if p.Key, err = p.keyTag(); err != nil {
		return nil, nil, fault.Userf("%w", err)
	}
	if err := os.MkdirAll(filepath.Dir(cellPath(dir, 0)), 0o755); err != nil {
		return nil, nil, fault.Userf("the ablation's folder cannot be made: %w", err)
	}
	base.Provenance = nil
	p.Base = contentHash(base.YAML())
	if err := atomicfile.WriteBytes(basePath(dir), base.YAML()); err != nil {
		return nil, nil, err
	}
	for _, c := range cells {
		number := slices.IndexFunc(p.Cells, func(o plannedCell) bool { return o.Name == c.Name })
		if number >= 0 {
			planned, err := p.Cell(number)
			if err != nil {
				return nil, nil, err
			}
			if key, have, want := c.Differs(planned.Config); key != "" {
				return nil, nil, fault.Userf("%s plans %s with %s = %v, and %v is asked for: name another folder",
					planPath(dir), c.Name, key, have, want)
			}
		} else {
			number = len(p.Cells)
			if err := atomicfile.WriteBytes(cellPath(dir, number), c.Config.YAML()); err != nil {
				return nil, nil, err
			}
			p.Cells = append(p.Cells, plannedCell{c.Name, contentHash(c.Config.YAML())})
		}
		numbers = append(numbers, number)
	}
	return p, numbers, atomicfile.WriteJSON(planPath(dir), p)
}

// ReadPlan reads the plan of the ablation in dir. One that is not there is fs.ErrNotExist.
func ReadPlan(dir string) (*Plan, error) {
	b, err := os.ReadFile(planPath(dir))
	if err != nil {
		return nil, err
	}
	p := &Plan{dir: dir}
	decoder := json.NewDecoder(bytes.NewReader(b))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(p); err != nil {
		return nil, fault.Userf("%s: %w", planPath(dir), err)
	}
	return p, nil
}

// Last returns the base configuration and what was varied in the plan's last writing.
func (p *Plan) Last() (configs.Config, Varied, error) {
	base, err := loadPlanned(basePath(p.dir), p.Base)
	if err != nil {
		return configs.Config{}, Varied{}, err
	}
	return *base, p.Varied, nil
}

// Cell reads a planned cell, without the values that gave it its name.
func (p *Plan) Cell(number int) (Cell, error) {
	if number < 0 || number >= len(p.Cells) {
		return Cell{}, fault.Userf("%s has no cell %d; its cells are 0 to %d", planPath(p.dir), number, len(p.Cells)-1)
	}
	c, err := loadPlanned(cellPath(p.dir, number), p.Cells[number].Config)
	if err != nil {
		return Cell{}, err
	}
	return Cell{Seed: c.Seed, Name: p.Cells[number].Name, Config: *c}, nil
}

// loadPlanned reads a configuration that must be as it was when the plan was made.
func loadPlanned(path, want string) (*configs.Config, error) {
	hash, err := atomicfile.SHA256(path)
	if err != nil {
		return nil, fault.Userf("%w", err)
	}
	if hash != want {
		return nil, fault.Userf("%s was changed after it was planned: its SHA-256 is %s, want %s", path, hash, want)
	}
	return configs.Load(configs.LoadOptions{File: path})
}

// CheckKey returns an error if this process has another key than the one that planned.
func (p *Plan) CheckKey() error {
	tag, err := p.keyTag()
	if err != nil {
		return fault.Userf("%w", err)
	}
	if tag != p.Key {
		path, _ := datakey.Path()
		return fault.Userf("%s was planned with another key for tags of private data than %s: let %s name the same "+
			"key file on every machine", planPath(p.dir), path, datakey.Variable)
	}
	return nil
}

// keyTag distinguishes keys and reveals nothing of them.
func (p *Plan) keyTag() (string, error) {
	key, err := datakey.Load()
	if err != nil {
		return "", err
	}
	h := hmac.New(sha256.New, key)
	fmt.Fprintf(h, "popri plan %s", p.ID)
	return hex.EncodeToString(h.Sum(nil))[:16], nil
}

func contentHash(b []byte) string { return fmt.Sprintf("%x", sha256.Sum256(b)) }
