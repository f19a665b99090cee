package main

import (
	"github.com/spf13/cobra"
)

// embedded is the name of the data set that needs no file.
const embedded = "godoc"

func (a *app) data() *cobra.Command {
	return group("data", "Look at, check, import and build client data; publish the product",
		"  popri data info godoc\n  popri data check clients.parquet\n"+
			"  popri data import posts.jsonl --client author --text body --out clients.parquet\n"+
			"  popri data push-ready runs/mine --out hub/mine",
		a.dataInfo(), a.dataCheck(), a.dataImport(), a.dataBuild(), a.dataPushReady())
}
