package reporting

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"popri/configs"
	"popri/internal/atomicfile"
	"popri/internal/rundir"
	"popri/methods/method"
)

// inBibTeX escapes what means something to BibTeX or LaTeX.
var inBibTeX = strings.NewReplacer(`\`, `\textbackslash{}`, "{", `\{`, "}", `\}`, "%", `\%`, "&", `\&`, "#", `\#`, "_",
	`\_`, "$", `\$`, "~", `\textasciitilde{}`, "^", `\textasciicircum{}`, "ε", `$\varepsilon$`, "δ", `$\delta$`, "\n",
	" ")

// citation is BibTeX for a run: the command that makes it, the versions, and hashes by which its files can be told from
// others. ledgerHead is the hash of the ledger's last line.
func citation(dir, title, command string, c *configs.Config, d method.Description, ledgerHead string) (string, error) {
	var notes []string
	note := func(name, value string) {
		if value != "" {
			notes = append(notes, name+" "+inBibTeX.Replace(value))
		}
	}
	note("popri", c.Provenance["program"])
	note("libtorch", c.Provenance["libtorch"])
	note("encoder", c.Provenance["encoder"])
	note("public text sha256", c.Provenance["public_sha256"])
	note("ledger", ledgerHead)
	for _, file := range []string{rundir.Config, rundir.Synthetic, filepath.Join(rundir.Small, "model.safetensors")} {
		hash, err := atomicfile.SHA256(filepath.Join(dir, file))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
		if err == nil {
			note(file+" sha256", hash)
		}
	}
	out := fmt.Sprintf("@misc{popri-run,\n  title        = {%s},\n  howpublished = {\\texttt{%s}},\n  note         = "+
		"{%s}\n}\n",
		inBibTeX.Replace(title), inBibTeX.Replace(command), strings.Join(notes, ";\n                  "))
	return out + d.Paper, nil
}
