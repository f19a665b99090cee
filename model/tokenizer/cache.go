package tokenizer

import (
	"hash/maphash"
	"strings"
	"sync"
)

const (
	cacheShards = 16
	// shardWords bounds each half of a shard: 2·16·4096 words in all, some 15 MB of long words. Natural text repeats
	// most of its words within far fewer.
	shardWords = 4096
	// longestCached keeps runs of blanks and data lines, which hardly repeat, out of the cache.
	longestCached = 64
)

var cacheSeed = maphash.MakeSeed()

// wordCache remembers the ids of words. Each shard has two generations: a full young one becomes the old one, whose
// content is dropped; a word that is found in the old one moves to the young one. Words in use stay, as in a
// least-recently-used cache, without a list to maintain.
type wordCache struct {
	shards [cacheShards]struct {
		sync.RWMutex
		young, old map[string][]int32
	}
}

// encode appends the ids of a word: the remembered ones, or those that spell appends.
func (c *wordCache) encode(ids []int32, word string, spell func(ids []int32, word string) []int32) []int32 {
	if cached, ok := c.get(word); ok {
		return append(ids, cached...)
	}
	start := len(ids)
	ids = spell(ids, word)
	c.put(word, ids[start:])
	return ids
}

func (c *wordCache) get(word string) ([]int32, bool) {
	if len(word) > longestCached {
		return nil, false
	}
	shard := &c.shards[maphash.String(cacheSeed, word)%cacheShards]
	shard.RLock()
	ids, ok := shard.young[word]
	old := false
	if !ok {
		ids, ok = shard.old[word]
		old = ok
	}
	shard.RUnlock()
	if old {
		c.put(word, ids)
	}
	return ids, ok
}

func (c *wordCache) put(word string, ids []int32) {
	if len(word) > longestCached {
		return
	}
	shard := &c.shards[maphash.String(cacheSeed, word)%cacheShards]
	shard.Lock()
	defer shard.Unlock()
	if shard.young == nil || len(shard.young) >= shardWords {
		shard.old, shard.young = shard.young, make(map[string][]int32)
	}
	// The copies keep the cache from holding the caller's text and buffer, and from seeing later changes to them.
	shard.young[strings.Clone(word)] = append([]int32(nil), ids...)
}
