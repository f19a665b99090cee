package deps

import (
	_ "github.com/cheggaaa/pb/v3"
	_ "github.com/parquet-go/parquet-go"
	_ "github.com/spf13/cobra"
	_ "github.com/spf13/viper"
	_ "github.com/go-viper/mapstructure/v2"
	_ "golang.org/x/sys/unix"
	_ "golang.org/x/term"
	_ "golang.org/x/text/unicode/norm"
	_ "gonum.org/v1/gonum/mat"
	_ "gonum.org/v1/plot"
	_ "github.com/sugarme/gotch/libtch"
	_ "gopkg.in/yaml.v3"
	_ "github.com/olekukonko/tablewriter"
	_ "github.com/dustin/go-humanize"
)
