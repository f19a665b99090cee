package configs

import (
	"os"
	"testing"
)

// settings are the section of a method that only these tests know.
type settings struct {
	Share float64  `yaml:"share" range:"[0, 1]"`
	Words []string `yaml:"words"`
}

var sorting = Register("sorting", settings{Share: 0.5}, nil)

// The package knows no method: these stand for the program's methods.
func TestMain(m *testing.M) {
	RegisterMethod(Method{Name: "popri", Trains: Generator})
	RegisterMethod(Method{Name: "sorting", Check: func(r *Report, c Config) {
		r.Refuse(c, "where method is \"sorting\"", "aggregate.least", "generate.by_label")
	}})
	RegisterMethod(Method{Name: "learning", Trains: SmallModel, Samplings: []string{"full", "tree"}})
	os.Exit(m.Run())
}
