package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"popri/datasets/clients"
)

// embedded is the name of the data set that needs no file.
const embedded = "godoc"

// warnOfSplits warns of a file without the clients that an evaluation needs.
func (a *app) warnOfSplits(file string, splits map[clients.Split]clients.Counts) {
	for _, split := range clients.Splits {
		if splits[split].Clients == 0 {
			a.warn(fmt.Sprintf("%s has no %s clients: popri trains on train clients, chooses a small model's step by validation "+
				"clients and tests it on test clients (popri data import --help says how splits are made)", file, split))
		}
	}
}

func (a *app) data() *cobra.Command {
	return group("data", "Look at, check, import and build client data; publish the synthetic set",
		"  popri data info godoc\n  popri data check clients.parquet\n"+
			"  popri data import posts.jsonl --client author --text body --out clients.parquet\n"+
			"  popri data push-ready runs/mine --out hub/mine",
		a.dataInfo(), a.dataCheck(), a.dataImport(), a.dataBuild(), a.dataPushReady())
}
