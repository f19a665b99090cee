package main

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"popri/configs"
	"popri/configs/worlds"
	"popri/internal/modelcache"
	"popri/internal/numeric"
)

// completions are what the shell completes the values of flags to, by their names, wherever a verb has them.
func completions() map[string]cobra.CompletionFunc {
	models, encoders := demoModels(), slices.Clone(configs.Encoders)
	for _, s := range modelcache.Sources {
		if s.Encodes {
			encoders = append(encoders, s.Name)
		}
	}
	const alone, orFiles = cobra.ShellCompDirectiveNoFileComp, cobra.ShellCompDirectiveDefault
	settings := settingsFor(models, encoders)
	return map[string]cobra.CompletionFunc{
		"preset": names(configs.Presets(), alone), "world": names(worlds.Names(), alone),
		"set": settings, "over": settings, "instead": settings,
		"model": names(models, orFiles), "encoder": names(encoders, orFiles),
		"small":  names(append(models[:len(models):len(models)], configs.Trained), orFiles),
		"device": names(configs.Choices("model.device"), alone),
	}
}

// byName are the verbs whose --model and --encoder may be names; other verbs take folders.
var byName = []string{"popri demo", "popri generate", "popri dpo", "popri doctor"}

// complete makes cmd and its verbs complete the values of their flags.
func complete(cmd *cobra.Command) {
	for flag, values := range completions() {
		folder := (flag == "model" || flag == "encoder") && !slices.Contains(byName, cmd.CommandPath())
		if !folder {
			_ = cmd.RegisterFlagCompletionFunc(flag, values) // fails for a flag that the verb does not have
		}
	}
	for _, verb := range cmd.Commands() {
		complete(verb)
	}
}

// names completes to the names of a list; the directive says whether to files where no name begins so.
func names(list []string, directive cobra.ShellCompDirective) cobra.CompletionFunc {
	return func(_ *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
		return beginning(begun, list), directive
	}
}

// settingsFor completes to a key and "=", and then to the key's values where it has a list of them.
func settingsFor(models, encoders []string) cobra.CompletionFunc {
	return func(_ *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
		key, _, found := strings.Cut(begun, "=")
		if !found {
			all := numeric.Map(configs.Names(), func(name string) string { return name + "=" })
			return beginning(begun, all), cobra.ShellCompDirectiveNoSpace | cobra.ShellCompDirectiveNoFileComp
		}
		values := configs.Choices(key)
		switch key {
		case "model.path", "downstream.model":
			values = append(models[:len(models):len(models)], configs.Trained)
		case "scoring.encoder":
			values = encoders
		}
		all := numeric.Map(values, func(value string) string { return key + "=" + value })
		return beginning(begun, all), cobra.ShellCompDirectiveNoFileComp
	}
}

// beginning are the names of a list that begin so.
func beginning(begun string, list []string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(name string) bool { return !strings.HasPrefix(name, begun) })
}
