package shard

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"strings"

	"popri/fedsim/sealing"
	"popri/internal/fault"
	"popri/scoring/query"
)

// Merge adds up the partial sums of all shards of a question: the exact sum over all clients, which is secret. It
// refuses files that are changed, for another key, question or round, or for another number of shards; shards that are
// missing, there twice or of the same clients; and a number of clients that is not the question's.
func Merge(key sealing.PrivateKey, q Question, paths []string) (query.Partial, error) {
	parts, err := collect(q, paths)
	if err != nil {
		return query.Partial{}, err
	}
	var total query.Partial
	seen := map[[sha256.Size]byte]string{}
	for i, p := range parts {
		o, err := p.reopened(key)
		if err != nil {
			return query.Partial{}, err
		}
		if first, twice := seen[o.fingerprint]; twice && p.Clients > 0 {
			return query.Partial{}, refused(p.path, "it is of the same clients as %s", first)
		}
		seen[o.fingerprint] = p.path
		if i == 0 {
			total = o.sum
			continue
		}
		if err := total.Merge(o.sum); err != nil {
			return query.Partial{}, refused(p.path, "%w", err)
		}
	}
	return total, nil
}

// collect reads the parts of a question and puts them into the order of shards.
func collect(q Question, paths []string) ([]*Part, error) {
	if len(paths) == 0 {
		return nil, fault.Userf("no partial sums are given to merge")
	}
	var parts []*Part
	clients := 0
	for _, path := range paths {
		p, err := ReadPart(path)
		if err != nil {
			return nil, err
		}
		if err := p.answers(q); err != nil {
			return nil, refused(path, "%w", err)
		}
		if parts == nil {
			parts = make([]*Part, p.Of)
		}
		first := paths[0]
		switch {
		case p.Of != len(parts):
			return nil, refused(path, "it is shard %s, but %s is one of %d", p.Place(), first, len(parts))
		case parts[p.Shard-1] != nil:
			return nil, refused(path, "shard %s is there twice: %s is it too", p.Place(), parts[p.Shard-1].path)
		}
		p.sealed = nil // of many shards, one is in memory at a time
		parts[p.Shard-1] = p
		clients += p.Clients
	}
	var missing []string
	for i, p := range parts {
		switch {
		case p == nil:
			missing = append(missing, fmt.Sprint(i+1))
		case p.Assignment != parts[firstOf(parts)].Assignment:
			return nil, refused(p.path,
				"its clients are assigned by %q, those of another shard are not: a client may be in both", p.Assignment)
		}
	}
	if len(missing) > 0 {
		return nil, fault.Userf("%w: of %d shards, %s: not given", ErrPart, len(parts), strings.Join(missing, ", "))
	}
	if clients != q.Clients {
		return nil, fault.Userf("%w: the shards have %d clients together, the question is for %d (fed.clients)",
			ErrPart, clients, q.Clients)
	}
	return parts, nil
}

// reopened reads the part's file again and decrypts it.
func (p *Part) reopened(key sealing.PrivateKey) (opened, error) {
	again, err := ReadPart(p.path)
	if err != nil {
		return opened{}, err
	}
	if !bytes.Equal(again.line, p.line) {
		return opened{}, refused(p.path, "the file was replaced in the meantime")
	}
	return again.open(key)
}

// firstOf is the index of the first part that is there.
func firstOf(parts []*Part) int {
	for i, p := range parts {
		if p != nil {
			return i
		}
	}
	return 0
}

// answers returns what is wrong if the part does not answer the question.
func (p *Part) answers(q Question) error {
	switch {
	case p.Round != q.Round:
		return fmt.Errorf("it is for round %d, want round %d", p.Round, q.Round)
	case p.Query != q.Name || p.Bound != q.Bound:
		return fmt.Errorf("it answers %q with norm bound %g, the question is %q with %g", p.Query, p.Bound, q.Name,
			q.Bound)
	case p.Encoder != q.Encoder:
		return fmt.Errorf("its encoder is %s, the question's is %s", p.Encoder, q.Encoder)
	case p.Question != q.ID || p.Key != q.Key:
		return fmt.Errorf("it answers another question: that has the hash %.12s…, this one %.12s…", p.Question, q.ID)
	}
	return nil
}
