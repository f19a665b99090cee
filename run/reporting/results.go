package reporting

import (
	"fmt"
	"strings"

	"popri/methods/method"
	"popri/run/evaluation"
	"popri/show/report"
)

// addResults fills the table and compares the method with each comparator in words.
func addResults(r *report.Report, e *evaluation.Outcome, d method.Description) {
	notes := map[string]string{
		"public": "the small model before fine-tuning", evaluation.KeyUntuned: d.Untuned,
		evaluation.KeyUntrained: "what the release gives without training",
		evaluation.KeyWritten:   "without public texts", evaluation.KeySelected: "without the model's texts",
		evaluation.KeyInDomain: "public files of the same trees; in practice nobody has such text",
		"private":              "no privacy: the other end of the gap"}
	if e.Classifies() {
		notes["public"] = "data.public with its own labels"
	}
	if all := e.Result(evaluation.KeyPublicAll); all != nil {
		notes[evaluation.KeyPublicAll] = "data.public"
		if strings.HasSuffix(all.Name, evaluation.SeenSuffix) {
			notes[evaluation.KeyPublicAll] = "what the generator was trained on"
		}
	}
	var product, others = e.Result(d.Name), []string{}
	for _, x := range e.Results {
		row := report.Result{Key: x.Key, Name: x.Name, Note: notes[x.Key], Accuracy: new(x.Accuracy),
			AccuracyCI: (*report.Interval)(x.AccuracyCI), PerplexityCI: (*report.Interval)(x.PerplexityCI), MacroF1: x.MacroF1,
			MacroF1CI: (*report.Interval)(x.MacroF1CI), GapClosed: x.GapClosed, GapClosedCI: (*report.Interval)(x.GapClosedCI)}
		if !e.Classifies() {
			row.Perplexity = new(x.Perplexity)
		}
		row.Bits, row.BitsCI, row.Saved, row.SavedCI = x.Bits, (*report.Interval)(x.BitsCI), x.Saved, (*report.Interval)(x.SavedCI)
		row.Deciles, row.Same = x.Deciles, evaluation.Same(x)
		r.Results = append(r.Results, row)
		if product != nil && x.Key != d.Name && x.Key != "private" && !row.Same && x.Accuracy >= product.Accuracy {
			others = append(others, fmt.Sprintf("%s (%.2f %%)", x.Name, 100*x.Accuracy))
		}
	}
	if zero := e.Result("public"); zero != nil && product != nil && len(product.Suggested) == len(zero.Suggested) {
		for i := range zero.Suggested {
			r.Typed = append(r.Typed, report.Typed{Text: e.Typed[i], Before: zero.Suggested[i], After: product.Suggested[i]})
		}
	}
	r.Notes = append(r.Notes, measured(e))
	r.Notes = append(r.Notes, e.Notes...)
	if why := e.NoGap(); why != "" {
		r.Notes = append(r.Notes, why)
	}
	r.Verdict = e.Verdict()
	if e.PublicDistance != nil {
		r.Notes = append(r.Notes, e.PublicDistance.String())
	}
	if len(others) > 0 {
		r.Notes = append(r.Notes, fmt.Sprintf("%s does not beat everything here: it has %.2f %% and is no better than %s.",
			d.Title, 100*product.Accuracy, strings.Join(others, ", ")))
	}
}

// measured says in words what the figures are.
func measured(e *evaluation.Outcome) string {
	if e.Classifies() {
		return fmt.Sprintf("Accuracy is the share of texts of %d private test clients that get their own of %d "+
			"labels; macro F1 is the mean of the labels' F1, in which a rare label counts as much as a frequent one. "+
			"Intervals are 95 %% bootstrap intervals over clients. Every model starts from the same weights with the "+
			"same new head, unless downstream.model has a trained one, and %s, in the same way for all. A written "+
			"text has the label of the public texts that its prompt quoted; nothing checks that it fits.", e.Clients,
			e.Labels, e.Protocol)
	}
	return fmt.Sprintf("Accuracy is the share of next tokens predicted exactly, over all tokens of %d private test "+
		"clients; intervals are 95 %% bootstrap intervals over clients. Every model starts from the ε = 0 weights "+
		"and %s, in the same way for all.", e.Clients, e.Protocol)
}
