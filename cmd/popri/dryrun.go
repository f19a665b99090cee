package main

import (
	"cmp"
	"fmt"
	"io"
	"strings"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"popri/configs"
	"popri/datasets/clients"
	"popri/eval/benchmark"
	"popri/internal/rundir"
	"popri/run/assembly"
	"popri/study/cost"
)

func addDryRun(cmd *cobra.Command, dry *bool) {
	cmd.Flags().BoolVar(dry, "dry-run", false, "print the clients, the noise, ε, the time and memory, and what would "+
		"be published; train and spend nothing, write no run, and end")
}

// dryRun prints what a new run would do. out is its folder, or "".
func (a *app) dryRun(c configs.Config, out string, evaluation bool, rows ...string) error {
	if out != "" && rundir.Exists(out) {
		return usage(fmt.Errorf("--dry-run plans a new run, and %s holds a run already: name another folder", out))
	}
	c.Model.Device = cmp.Or(a.device, c.Model.Device)
	if err := assembly.SetCompute(c); err != nil {
		return err
	}
	p := a.progress()
	p.begin("plan")
	d, err := cost.Dry(c, evaluation, rows, a.warn)
	if err != nil {
		return err
	}
	rate, seconds, err := speed(c)
	if err != nil {
		return err
	}
	p.stop()
	time := seconds(d.Work.Flops)
	return a.emit(struct {
		*cost.DryRun
		Rate    float64 `json:"flops_per_second"`
		Seconds float64 `json:"seconds"`
	}{d, rate, time}, func(w io.Writer) {
		for _, split := range clients.Splits {
			n := d.Clients[split]
			fmt.Fprintf(w, "%s clients\t%d, %d texts, %d words\n", split, n.Clients, n.Texts, n.Words)
		}
		fmt.Fprintf(w, "public texts\t%d\nnoise multiplier\t%.4g; releases: %d\nε, δ\tε = %s of %g, δ = %g\n",
			d.PublicTexts, d.NoiseMultiplier, d.Releases, roundedUp(d.Epsilon), d.Budget, d.Delta)
		fmt.Fprintf(w, "work\t%d samples, %d pairs, %d texts that the model writes, %d small models\n", d.Work.Samples,
			d.Work.Pairs, d.Work.Product, d.Work.SmallModels)
		if len(d.Trained) > 0 {
			fmt.Fprintf(w, "trained first\t%s, on the public text, unless the cache has it\n",
				strings.Join(d.Trained, ", "))
		}
		fmt.Fprintf(w, "time\tabout %s on this machine, as busy as it is now; reading texts comes on top\n", roughly(time))
		fmt.Fprint(w, "memory\t")
		if d.Work.Memory > 0 {
			fmt.Fprintf(w, "%s for the generator, then ", humanize.IBytes(uint64(d.Work.Memory)))
		}
		fmt.Fprintf(w, "%s for the training of small models; encoder, texts and libraries come on top\n",
			humanize.IBytes(uint64(d.Work.SmallMemory)))
		for _, p := range d.Publishes {
			fmt.Fprintf(w, "publishes\t%s\n", p)
		}
		fmt.Fprintf(w, "guarantee\t%s\n", d.Guarantee)
		for _, warning := range d.Warnings {
			fmt.Fprintf(w, "note\t%s\n", warning)
		}
	})
}

// speed is the rate of large matrix products on this machine, and the time that floating-point operations of sampling
// and training take, which reach about half of it (docs/performance.md).
func speed(c configs.Config) (rate float64, seconds func(flops float64) float64, err error) {
	rate, err = benchmark.ProductRate(assembly.ComputeType(c.Model.DType))
	return rate, func(flops float64) float64 { return 2 * flops / rate }, err
}
