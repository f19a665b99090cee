package main

import (
	"bytes"
	"cmp"
	_ "embed"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"text/template"

	"github.com/spf13/cobra"
	"gopkg.in/yaml.v3"

	"popri/configs"
	"popri/datasets/clients"
	"popri/datasets/speeches"
	"popri/internal/atomicfile"
	"popri/internal/version"
)

// The files that init writes. popri run takes the first where nothing else is named.
const (
	ownConfig = "popri.yaml"
	ownFile   = "popri-clients.parquet"
	ownPublic = "popri-public.parquet"
)

// initOptions are the flags of the verb init.
type initOptions struct {
	clients.ImportOptions
	public []string
	preset string
}

func (a *app) initialize() *cobra.Command {
	var o initOptions
	cmd := &cobra.Command{
		Use:   "init FILE… [--client COLUMN] [--public FILE]",
		Short: "Make a configuration of your own files, and say what a run of it will do",
		Long: `Looks at the files (those of "popri data import"), guesses the columns of clients, texts, dates and labels that no flag names, and
writes into the working directory:

  ` + ownFile + `   the clients, split into train, validation and test
  ` + ownPublic + `    books, where --public names no text of your own; text that is like the clients' is better
  ` + ownConfig + `              the settings that matter, each with a comment, over a preset

Then it says what "popri run" would do there: clients, noise, ε, time and memory. Presets for a machine: smoke (minutes on two cores),
laptop (an evening), gpu and gpus.`,
		Example: "  popri init posts.csv --client user\n  popri init a.jsonl b.jsonl --text body --public news.txt --preset laptop",
		Args:    cobra.MinimumNArgs(1),
		RunE:    func(cmd *cobra.Command, args []string) error { return a.runInit(cmd, o, args) },
	}
	f := cmd.Flags()
	f.StringVar(&o.Columns.Client, "client", "", "column of clients (default: guessed)")
	f.StringVar(&o.Columns.Text, "text", "", "column of texts (default: the one with most words)")
	f.StringVar(&o.Columns.Date, "date", "", "column of dates (default: guessed)")
	f.StringVar(&o.Columns.Label, "label", "", "column of labels (default: guessed)")
	f.BoolVar(&o.ClientPerText, "client-per-text", false, "make a client of each text")
	f.StringArrayVar(&o.public, "public", nil, "file of public text: Parquet, JSON lines or plain lines; may be repeated")
	f.StringVar(&o.preset, "preset", "smoke", "settings to start from: smoke, laptop, gpu, gpus, or another preset of popri run")
	return cmd
}

// runInit makes the files and plans a run of them.
func (a *app) runInit(cmd *cobra.Command, o initOptions, args []string) error {
	if _, err := os.Stat(ownConfig); err == nil {
		return usage(fmt.Errorf("init: %s is here already; take it away first", ownConfig))
	}
	files, err := importFiles(args, nil)
	if err != nil {
		return usage(fmt.Errorf("init: %w", err))
	}
	if o.Columns, err = clients.Guess(files[0].Path, o.ImportOptions); err != nil {
		return usage(fmt.Errorf("init: %w", err))
	}
	a.say("columns of %s: client %q, text %q, date %q, label %q; --client, --text, --date and --label name others", files[0].Path,
		o.Columns.Client, o.Columns.Text, o.Columns.Date, o.Columns.Label)
	o.Deduplicate, o.SkipBlank, o.Program = clients.NoDeduplication, true, version.Program()
	if len(o.public) == 0 {
		books, err := speeches.Public()
		if err = cmp.Or(err, atomicfile.WriteBytes(ownPublic, books)); err != nil {
			return fmt.Errorf("init: %w", err)
		}
		o.public = []string{ownPublic}
		a.say("public text: old books (%s); --public names text that is nearer to the clients'", ownPublic)
	}
	m, err := a.imported(cmd.Context(), "init", ownFile, files, o.ImportOptions)
	if err != nil {
		return err
	}
	a.warnOfSplits(ownFile, m.Splits)
	c, err := configs.Load(configs.LoadOptions{Preset: o.preset, Set: []string{"data.private=" + ownFile,
		"data.public=" + strings.Join(o.public, ","), fmt.Sprintf("privacy.delta=%g", deltaOf(m.Splits[clients.Train].Clients))}})
	if err != nil {
		return usage(err)
	}
	content, err := ownYAML(*c, o.preset, m.Splits)
	if err == nil {
		err = atomicfile.WriteBytes(ownConfig, content)
	}
	if err != nil {
		return fmt.Errorf("init: %w", err)
	}
	a.say("%s is written; popri run does what follows, and popri eval --run runs/first tests a small model on the test clients",
		ownConfig)
	return a.dryRun(*c, "", true)
}

// deltaOf is a power of ten below 1/clients, of which δ must be a fraction, and at most the preset's 1e-4.
func deltaOf(n int) float64 {
	return min(1e-4, math.Pow(10, -math.Floor(math.Log10(float64(max(1, n)))+1)))
}

//go:embed own.yaml
var ownTemplate string

// ownYAML is the configuration as a file for people: the preset and the settings that they would change.
func ownYAML(c configs.Config, preset string, splits map[clients.Split]clients.Counts) ([]byte, error) {
	get := func(key string) (string, error) {
		value, _ := c.Get(key)
		text, err := yaml.Marshal(value)
		return strings.TrimSpace(string(text)), err
	}
	var b bytes.Buffer
	err := template.Must(template.New("").Funcs(template.FuncMap{"get": get}).Parse(ownTemplate)).Execute(&b,
		map[string]any{"Preset": preset, "Clients": splits})
	return b.Bytes(), err
}

// ownRun takes the configuration of the working directory where the command line names no other, and a folder for its run.
func ownRun(o *runOptions, cmd *cobra.Command) {
	_, err := os.Stat(ownConfig)
	if err != nil || changed(cmd, append([]string{"config", "preset"}, worldNames...)...) != "" {
		return
	}
	if !o.resume {
		o.flags.file = ownConfig
	}
	if o.out == "" && !o.dry {
		o.out = filepath.Join("runs", "first")
	}
}
