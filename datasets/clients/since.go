package clients

// Since returns the population without texts that are dated before since or have no date, and without the clients that
// have no other texts. since is a date or the beginning of one, such as "1945". Texts are shared with p.
func (p *Population) Since(since string) *Population {
	out := &Population{Name: p.Name, Unit: p.Unit}
	for _, c := range p.Clients {
		if c.Dates == nil { // one date for all
			if c.Date >= since && c.Date != "" {
				out.Clients = append(out.Clients, c)
			}
			continue
		}
		kept := Client{ID: c.ID, Split: c.Split, Label: c.Label}
		for i, date := range c.Dates {
			if date < since || date == "" {
				continue
			}
			kept.Texts, kept.Dates = append(kept.Texts, c.Texts[i]), append(kept.Dates, date)
			if c.Labels != nil {
				kept.Labels = append(kept.Labels, c.Labels[i])
			}
		}
		if len(kept.Texts) == 0 {
			continue
		}
		kept.Date, kept.Dates = shared(kept.Dates)
		if kept.Labels != nil {
			kept.Label, kept.Labels = shared(kept.Labels)
		}
		out.Clients = append(out.Clients, kept)
	}
	return out
}
