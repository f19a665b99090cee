package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode"

	"github.com/spf13/cobra"

	"popri/datasets"
	"popri/datasets/clients"
	"popri/datasets/godoc"
	"popri/internal/quote"
	"popri/model/tokenizer"
)

// dataInformation is the output of `data info`: the counts, who the clients are, and who sees their texts.
type dataInformation struct {
	clients.Information
	Source string            `json:"source"`
	Public []publicPart      `json:"public,omitempty"`
	Seen   map[string]string `json:"seen_by"`
	// Sizes are by split, in words, or in tokens of Tokenizer.
	Sizes     map[clients.Split]clients.Sizes `json:"sizes,omitempty"`
	Tokenizer string                          `json:"tokenizer,omitempty"`
}

type publicPart struct {
	Part  string `json:"part"`
	Texts int    `json:"texts"`
	Words int    `json:"words"`
	Use   string `json:"use"`
}

// seenBy says who sees the texts of each split in the clear.
var seenBy = map[clients.Split]string{
	clients.Train: "nobody in training: noised sums alone leave the clients; the ε = ∞ comparison is trained " +
		"on it and is not published",
	clients.Validation: "the evaluation, without noise: it chooses a small model's best step",
	clients.Test:       "the evaluation, without noise: it gives the figures of the report",
}

// infoOptions are the flags of the verb data info.
type infoOptions struct {
	tokenizer string
	labels    bool
}

func (a *app) dataInfo() *cobra.Command {
	var o infoOptions
	cmd := &cobra.Command{
		Use:   "info FILE | godoc",
		Short: "Who the clients are, what the privacy unit is, and what is public to whom",
		Long: `Counts clients, texts and words of a client file, or of the embedded default ("godoc": the comments of the Go
toolchain's own source), how much text a client has, what the privacy unit is and who sees which part. --tokenizer counts in
tokens instead of words. If texts have labels, it counts their texts and clients in each split, the most frequent label first.
--labels quotes the labels, which are clients' data; those that look like texts are not quoted even so, because columns may be
swapped. All counts are without noise: they are for the owner of the file.`,
		Example: "  popri data info godoc\n  popri data info clients.parquet --labels\n" +
			"  popri data info clients.parquet --tokenizer distilgpt2 --json",
		Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error { return a.runDataInfo(args[0], o) },
	}
	cmd.Flags().StringVar(&o.tokenizer, "tokenizer", "",
		"folder or file with a tokenizer.json whose tokens are counted instead of words")
	cmd.Flags().BoolVar(&o.labels, "labels", false, "quote the labels, which are clients' data")
	return cmd
}

// runDataInfo counts what a client file, or the embedded default, holds.
func (a *app) runDataInfo(source string, o infoOptions) error {
	count := func(text string) int { return len(strings.Fields(text)) }
	if o.tokenizer != "" {
		tok, err := tokenizer.Load(o.tokenizer)
		if err != nil {
			return usage(fmt.Errorf("--tokenizer: %w", err))
		}
		count = func(text string) int { return len(tok.Encode(text)) }
	}
	var population *clients.Population
	var err error
	var public []publicPart
	if source == embedded {
		corpus, err := godoc.Load("")
		if err != nil {
			return usage(err)
		}
		population, source = corpus.Private, corpus.Root
		part := func(name string, texts []datasets.Text, use string) {
			public = append(public, publicPart{name, len(texts), datasets.Words(texts), use})
		}
		part("prompts", corpus.Public.Prompts,
			"everybody: prompts quote it, and the small model (ε = 0) was trained on it")
		part("generator", corpus.Public.Generator, "everybody: the generator was trained on it")
		part("in-domain", corpus.Public.InDomain,
			"everybody: a public sample of the clients' domain, for comparison; a part of generator")
	} else if population, err = clients.Read(source); err != nil {
		return usage(err)
	}
	info := informationOf(population.Info(), source)
	info.Public, info.Tokenizer, info.Sizes = public, o.tokenizer, map[clients.Split]clients.Sizes{}
	info.hideLabels(o.labels)
	for split := range info.Splits {
		info.Sizes[split] = clients.SizesOf(population.Split(split), count)
	}
	return a.emit(info, info.print)
}

func (info dataInformation) print(w io.Writer) {
	fmt.Fprintf(w, "%s\t%s\nclients\t%d with %d texts, %d words\nprivacy unit\t%s\n"+
		"guarantee\tfor all texts of one client, there or taken away; the number of clients is public\n\n",
		info.Name, info.Source, info.Clients, info.Texts, info.Words, info.Unit)
	fmt.Fprintln(w, "part\tclients\ttexts\twords\tin the clear to")
	for _, split := range clients.Splits {
		if n, ok := info.Splits[split]; ok {
			fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%s\n", split, n.Clients, n.Texts, n.Words, info.Seen[string(split)])
		}
	}
	for _, p := range info.Public {
		fmt.Fprintf(w, "%s\t\t%d\t%d\t%s\n", p.Part, p.Texts, p.Words, p.Use)
	}
	info.printSizes(w)
	info.printLabels(w)
}

// printSizes prints how much text clients have, if that was counted.
func (info dataInformation) printSizes(w io.Writer) {
	if len(info.Sizes) == 0 {
		return
	}
	unit, bins, seen := "words", 0, 0
	if info.Tokenizer != "" {
		unit = "tokens"
	}
	bySplit(w, "\na client has", func(split clients.Split) string {
		bins = max(bins, len(info.Sizes[split].Histogram))
		return string(split)
	})
	bySplit(w, "texts, mean ± SD", func(split clients.Split) string {
		return fmt.Sprintf("%.1f ± %.1f", info.Sizes[split].Texts, info.Sizes[split].TextsSD)
	})
	for k := range bins {
		counts := map[clients.Split]int{}
		for split, sizes := range info.Sizes {
			if h := sizes.Histogram; k < len(h) {
				counts[split], seen = h[k], seen+h[k]
			}
		}
		if seen > 0 { // not below the smallest client
			bySplit(w, fmt.Sprintf("%d to %d %s", 1<<k/2, max(0, 1<<k-1), unit),
				func(split clients.Split) string { return quote.Count(counts[split], "client", "") })
		}
	}
}

// bySplit prints a line with a cell for each split.
func bySplit(w io.Writer, head string, cell func(clients.Split) string) {
	fmt.Fprint(w, head)
	for _, split := range clients.Splits {
		fmt.Fprintf(w, "\t%s", cell(split))
	}
	fmt.Fprintln(w)
}

// shownLabels is the number of labels that `data info` lists.
const shownLabels = 20

func (info dataInformation) printLabels(w io.Writer) {
	if len(info.Labels) == 0 {
		return
	}
	bySplit(w, "\nlabel\ttexts of clients", func(split clients.Split) string { return string(split) })
	listed := info.Labels[:min(len(info.Labels), shownLabels)]
	if none := info.Labels[len(info.Labels)-1]; none.Label == "" && len(listed) < len(info.Labels) {
		listed = append(slices.Clone(listed[:shownLabels-1]), none) // what lacks a label is not cut off
	}
	for _, l := range listed {
		bySplit(w, fmt.Sprintf("%s\t%d of %d", cmp.Or(l.Label, "(none)"), l.Texts, l.Clients),
			func(split clients.Split) string {
				return fmt.Sprintf("%d of %d", l.Splits[split].Texts, l.Splits[split].Clients)
			})
	}
	if more := len(info.Labels) - len(listed); more > 0 {
		fmt.Fprintf(w, "… %d more\n", more)
	}
}

// hideLabels replaces labels by their rank, unless they are to be quoted, and then those that may be somebody's text:
// long ones, and all if most texts have one of their own.
func (info *dataInformation) hideLabels(quoted bool) {
	const bytes, words, few = 40, 4, 100
	most := len(info.Labels) > few && 2*len(info.Labels) > info.Texts
	for i := range info.Labels {
		switch l := &info.Labels[i].Label; {
		case *l == "":
		case !quoted:
			*l = fmt.Sprintf("label %d", i+1)
		case most, len(*l) > bytes, len(strings.Fields(*l)) > words, strings.ContainsFunc(*l, unicode.IsControl):
			*l = fmt.Sprintf("(a label of %d bytes)", len(*l))
		}
	}
}
