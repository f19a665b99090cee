package report

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"math"
	"strings"

	"popri/eval/judge"
	"popri/internal/atomicfile"
	"popri/internal/numeric"
	"popri/internal/quote"
)

//go:embed judgement.html
var judgementSource string

var judgementPage = template.Must(template.New("page").Funcs(template.FuncMap{
	"percent": func(x float64) string { return fmt.Sprintf("%.1f %%", 100*x) },
	"fixed":   func(x float64) string { return Readable(fmt.Sprintf("%.3f", x)) },
	"chance": func(x float64) string {
		if x < 0.001 {
			return "below 0.001"
		}
		return fmt.Sprintf("%.3f", x)
	},
	"width":    func(x float64) template.CSS { return template.CSS(fmt.Sprintf("%.2f%%", 100*min(1, x))) },
	"join":     func(list []string) string { return strings.Join(list, ", ") },
	"add":      func(a, b int) int { return a + b },
	"has":      func(m map[string]float64, key string) bool { _, ok := m[key]; return ok },
	"readable": Readable,
}).Parse(judgementSource))

// WriteJudgement writes the page "quality and privacy" of what eval/judge found about a product in one step.
func WriteJudgement(path, name string, r *judge.Result) error {
	sets := numeric.Map(r.Likeness, func(l judge.Likeness) string { return l.Name })
	return atomicfile.Write(path, func(w io.Writer) error {
		return judgementPage.Execute(w, map[string]any{"Style": template.CSS(StyleSheet), "Name": name, "R": r,
			"Sentences": Judgement(r), "Sets": sets, "Mind": JudgementCaveats(r)})
	})
}

// Judgement answer what readers ask first: is the synthetic set like the clients' texts, does it repeat anybody, and can it
// be told who took part.
func Judgement(r *judge.Result) []string {
	var out []string
	likeness := map[string]judge.Likeness{}
	for _, l := range r.Likeness {
		likeness[l.Name] = l
	}
	text := fmt.Sprintf("Like the clients' texts: MAUVE %.2f", likeness[judge.TheProduct].Mauve)
	if others, ok := likeness[judge.RealClients]; ok {
		text += fmt.Sprintf(", where other real clients reach %.2f", others.Mauve)
	}
	if public, ok := likeness[judge.PublicText]; ok {
		text += fmt.Sprintf(" and public text %.2f", public.Mauve)
	}
	out = append(out, text+".")
	m := r.Memory
	switch n := len(m.Found); {
	case n == 0 && len(m.Copies) == 0:
		out = append(out, "Repeats nobody that could be found: no client behind it has a run of words or a near copy "+
			"in it that chance does not explain.")
	default:
		out = append(out, fmt.Sprintf("Repeats people: %s of clients behind it, and %s, that chance does not explain. "+
			"Do not publish it before these are looked at.",
			quote.Count(n, "run of words", "runs of words"), quote.Count(len(m.Copies), "near copy", "near copies")))
	}
	strongest := 0.0
	for _, a := range r.Membership {
		strongest = max(strongest, a.Epsilon)
	}
	text = fmt.Sprintf("Who took part: the attacks here show ε of at least %.2f", strongest)
	if strongest == 0 {
		text = "Who took part: the attacks here show nothing"
	}
	if r.Epsilon > 0 {
		text += fmt.Sprintf("; the run states ε = %.4g at δ = %.2g", r.Epsilon, r.Delta)
	}
	out = append(out, text+".")
	for _, c := range r.Canaries {
		if c.Run == c.Words {
			out = append(out, fmt.Sprintf("The planted text %q is in the synthetic set.", c.Text))
		}
	}
	return out
}

// apart is from which AUC on the groups of clients are called different.
const apart = 0.65

// JudgementCaveats say what weakens the comparison.
func JudgementCaveats(r *judge.Result) (out []string) {
	if math.Max(r.GroupsAUC, 1-r.GroupsAUC) > apart {
		out = append(out, fmt.Sprintf("Clients behind the synthetic set and clients held out differ: a classifier of their "+
			"texts reaches an AUC of %.2f, and 0.5 is no difference. What is said of clients behind the synthetic set "+
			"may come from this difference, such as other years, and not from their part in it. Name clients who "+
			"were drawn as they were (--controls).", r.GroupsAUC))
	}
	return out
}
