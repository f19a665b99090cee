package downstream

// Keys of the reference points that every comparison has.
const (
	Public  = "public"  // ε = 0: the starting point; of a classification, trained on public text
	Private = "private" // ε = ∞: the private training text itself
)

// Source is text to fine-tune on.
type Source struct {
	Key   string // popri, untuned, public_all, …
	Name  string // for people
	Texts []string
	// Labels are the texts' labels, for a classification; else nil.
	Labels []string
	// Model is the folder of a model that is tested as it is, in place of texts; "" for texts.
	Model string
}

// Result is the result of fine-tuning on a source, measured on the test clients.
type Result struct {
	Key          string    `json:"key"`
	Name         string    `json:"name"`
	Texts        int       `json:"texts"`
	Skipped      int       `json:"skipped,omitempty"` // texts left out because their label is none of the suite's
	BestStep     int       `json:"best_step"`
	LearningRate float64   `json:"learning_rate,omitempty"` // the chosen peak
	Curve        []Point   `json:"curve,omitempty"`
	Accuracy     float64   `json:"accuracy"`
	AccuracyCI   *Interval `json:"accuracy_ci,omitempty"` // intervals are nil where the bootstrap is left out
	// Accuracies has the accuracy of each training, where there are several.
	Accuracies []float64 `json:"accuracy_of_trainings,omitempty"`
	Top3       float64   `json:"top3_accuracy"`
	Top5       float64   `json:"top5_accuracy"`
	// Perplexity is per token; a classification has the macro F1 instead.
	Perplexity   float64   `json:"perplexity,omitempty"`
	PerplexityCI *Interval `json:"perplexity_ci,omitempty"`
	// Bits are per character, and Saved is the fraction of keystrokes that a keyboard's suggestions save; both nil of a
	// classification. Deciles are the perplexities of tenths of the test clients, ordered by perplexity at ε = 0.
	Bits    *float64  `json:"bits_per_character,omitempty"`
	BitsCI  *Interval `json:"bits_per_character_ci,omitempty"`
	Saved   *float64  `json:"keystrokes_saved,omitempty"`
	SavedCI *Interval `json:"keystrokes_saved_ci,omitempty"`
	Deciles []float64 `json:"perplexity_by_decile,omitempty"`
	// Suggested are the words that the model's keyboard suggests after each of [Suite.Typed], at ε = 0 and of the kept
	// model.
	Suggested [][]string `json:"suggested,omitempty"`
	MacroF1   *float64   `json:"macro_f1,omitempty"`
	MacroF1CI *Interval  `json:"macro_f1_ci,omitempty"`
	// GapClosed is nil where there is no gap: without the ε = ∞ point, and if it is no better than ε = 0.
	GapClosed   *float64  `json:"gap_closed,omitempty"`
	GapClosedCI *Interval `json:"gap_closed_ci,omitempty"`
	// Deficit is the accuracy of [Suite.Main] less the result's, and DeficitCI its interval, in which both are compared
	// on the same drawn clients. Both are nil for the main result and without one.
	Deficit   *float64  `json:"behind,omitempty"`
	DeficitCI *Interval `json:"behind_ci,omitempty"`
	scores    []Score   // of the clients, one training after another
}
