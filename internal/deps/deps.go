package deps

import (
	_ "github.com/cheggaaa/pb/v3"
	_ "github.com/dustin/go-humanize"
	_ "github.com/go-viper/mapstructure/v2"
	_ "github.com/olekukonko/tablewriter"
	_ "github.com/parquet-go/parquet-go"
	_ "github.com/spf13/cobra"
	_ "github.com/spf13/viper"
	_ "github.com/sugarme/gotch/libtch"
	_ "golang.org/x/sys/unix"
	_ "golang.org/x/term"
	_ "golang.org/x/text/unicode/norm"
	_ "gonum.org/v1/gonum/mat"
	_ "gonum.org/v1/plot"
	_ "gopkg.in/yaml.v3"
)
