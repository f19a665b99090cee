package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"popri/datasets"
	"popri/datasets/clients"
	"popri/datasets/godoc"
)

// dataInformation is the output of `data info`: the counts, who the clients are, and who sees their texts.
type dataInformation struct {
	clients.Information
	Source string            `json:"source"`
	Public []publicPart      `json:"public,omitempty"`
	Seen   map[string]string `json:"seen_by"`
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
		"on it and is no product",
	clients.Validation: "the evaluation, without noise: it chooses a small model's best step",
	clients.Test:       "the evaluation, without noise: it gives the figures of the report",
}

func (a *app) dataInfo() *cobra.Command {
	return &cobra.Command{
		Use:   "info FILE | godoc",
		Short: "Who the clients are, what the privacy unit is, and what is public to whom",
		Long: `Counts clients, texts and words of a client file, or of the embedded default ("godoc": the comments of the Go
toolchain's own source), and says what the privacy unit is and who sees which part.`,
		Example: "  popri data info godoc\n  popri data info clients.parquet --json",
		Args:    cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			info := dataInformation{Source: args[0], Seen: map[string]string{}}
			if args[0] == embedded {
				corpus, err := godoc.Load("")
				if err != nil {
					return usage(err)
				}
				info.Information, info.Source = corpus.Private.Info(), corpus.Root
				part := func(name string, texts []datasets.Text, use string) {
					info.Public = append(info.Public, publicPart{name, len(texts), datasets.Words(texts), use})
				}
				part("prompts", corpus.Public.Prompts, "everybody: prompts quote it, and the small model (ε = 0) was trained on it")
				part("generator", corpus.Public.Generator, "everybody: the generator was trained on it")
				part("in-domain", corpus.Public.InDomain,
					"everybody: a public sample of the clients' domain, for comparison; a part of generator")
			} else {
				var err error
				if info.Information, err = clients.Info(args[0]); err != nil {
					return usage(fmt.Errorf("data info: %w", err))
				}
			}
			for split := range info.Splits {
				info.Seen[string(split)] = seenBy[split]
			}
			return a.emit(info, info.print)
		},
	}
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
}
