package wordpairs

import (
	"fmt"

	"popri/configs"
	"popri/methods/method"
	"popri/methods/rounds"
	"popri/scoring/counts"
	"popri/show/series"
)

// Description describes the method.
var Description = method.Description{
	Method: configs.Method{Name: "word_pairs", Trains: configs.SmallModel},
	Clients: method.Clients{Query: query, Rounds: func(configs.Config) int { return 1 },
		Traffic: func(c configs.Config) method.Traffic {
			n := settings.Of(c).Tokens
			return method.Traffic{Sent: n * (1 + n), Received: n}
		}},
	Needs: func(configs.Config) method.Needs { return method.Needs{Small: true, Counts: true} },
	New:   newMethod,
	Cost:  func(configs.Config) method.Cost { return method.Cost{} },
	Series: series.Set{Columns: []series.Series{
		{Key: "tokens", Name: "Kept tokens", Format: series.Number}, {Key: "pairs", Name: "Kept pairs", Format: series.Number},
		{Key: configs.ValidationLoss, Name: "Loss without the table", Format: series.Number, Decimals: 4},
		{Key: configs.ValidationLoss + rounds.After, Name: "Loss with it", Format: series.Number, Decimals: 4},
		{Key: "tilt", Name: "Tilt", Format: series.Number, Decimals: 1}, {Key: "cap", Name: "Cap", Format: series.Number, Decimals: 1},
		{Key: "kappa", Name: "κ", Format: series.Number},
	}},
	Words: method.Words{Title: "Word-pair table", Work: work, Notes: notes,
		About:   "writes no text: a noised table of the clients' words and pairs of words is mixed into the small model's predictions",
		Product: "as it was, with a noised table of the clients' words and pairs of words to mix in"},
}

// query is the name and the norm bound of the clients' question.
func query(c configs.Config) (string, float64) {
	q := counts.Question{Share: settings.Of(c).PairShare}
	return q.Name(), q.Bound()
}

func work(c configs.Config) string {
	return fmt.Sprintf("counts of %d tokens and of their pairs", settings.Of(c).Tokens)
}

func notes(c configs.Config) []string {
	s := settings.Of(c)
	return []string{fmt.Sprintf("A client's vector is its counts of the %d most frequent tokens of the public text and of "+
		"their pairs, scaled to norms of √%.3g and √%.3g: all its texts together, whatever their number. The guarantee is for the "+
		"whole of a client's text. The run publishes the table: it and all that is computed from it are within ε.",
		s.Tokens, 1-s.PairShare, s.PairShare),
		fmt.Sprintf("Noise is drawn exactly for every value. The table has the values above %g times its standard deviation.",
			s.Threshold),
		"The folder small has the table in mixture.json. popri eval, popri judge and popri try apply it; other programs see " +
			"the small model alone."}
}
