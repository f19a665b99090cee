package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"popri/configs"
)

// configFlags are the flags that choose and change a configuration.
type configFlags struct {
	file, preset string
	set          []string
	data         worldFlags // between preset and file; the zero value adds nothing
}

func (f *configFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.file, "config", "", "configuration file (YAML)")
	cmd.Flags().StringVar(&f.preset, "preset", "", "named configuration: "+joined(configs.Presets()))
	cmd.Flags().StringArrayVar(&f.set, "set", nil, "set a key: --set dpo.rejected_rank=7; may be repeated")
}

// name sets keys that a verb's own flags name; a flag that was not given leaves its key.
func (f *configFlags) name(keys map[string]string) {
	for key, value := range keys {
		if value != "" {
			f.set = append(f.set, key+"="+value)
		}
	}
}

func (f *configFlags) load() (configs.Config, error) {
	if f.file != "" && f.data.cmd != nil {
		if name := changed(f.data.cmd, worldNames...); name != "" {
			return configs.Config{}, usage(fmt.Errorf("--config %s says which data there are (data.private, data.public); "+
				"do not combine it with --%s: --set changes its keys", f.file, name))
		}
	}
	options, _, err := f.data.options(f.preset, f.set)
	if err != nil {
		return configs.Config{}, err
	}
	options.File = f.file
	c, err := configs.Load(options)
	if err != nil {
		return configs.Config{}, usage(err)
	}
	return *c, nil
}
