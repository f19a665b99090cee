package clients

// Since returns the population without texts that are dated before since or have no date, and without the clients that
// have no other texts. since is a date or the beginning of one, such as "1945". Texts are shared with p.
func (p *Population) Since(since string) *Population {
	out := &Population{Name: p.Name, Unit: p.Unit}
	for _, c := range p.Clients {
		kept := Client{ID: c.ID, Split: c.Split}
		for i, text := range c.Texts {
			if date := at(c.Date, c.Dates, i); date >= since && date != "" {
				kept.Texts, kept.Dates = append(kept.Texts, text), append(kept.Dates, date)
				kept.Labels = append(kept.Labels, c.LabelOf(i))
			}
		}
		if len(kept.Texts) == 0 {
			continue
		}
		kept.Date, kept.Dates = shared(kept.Dates)
		kept.Label, kept.Labels = shared(kept.Labels)
		out.Clients = append(out.Clients, kept)
	}
	return out
}
