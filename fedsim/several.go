package fedsim

import (
	"errors"

	"popri/scoring/query"
)

// Several are the same clients who answer several kinds of questions, each by the first of the list that can.
type Several []Clients

// N implements Clients.
func (s Several) N() int { return s[0].N() }

// CanAnswer implements Clients.
func (s Several) CanAnswer(q query.Question) error {
	_, err := s.who(q)
	return err
}

// Sum implements Clients.
func (s Several) Sum(r Round) (Sum, error) {
	c, err := s.who(r.Query)
	if err != nil {
		return Sum{}, err
	}
	return c.Sum(r)
}

// who can answer a question.
func (s Several) who(q query.Question) (_ Clients, faults error) {
	for _, c := range s {
		err := c.CanAnswer(q)
		if err == nil {
			return c, nil
		}
		faults = errors.Join(faults, err)
	}
	return nil, faults
}
