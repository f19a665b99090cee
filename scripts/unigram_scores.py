"""Writes testdata/golden/unigram-scores/scores.json: how the library tokenizers reads the scores of a unigram model.

    pip install tokenizers==0.23.3 numpy
    python3 scripts/unigram_scores.py testdata/golden/unigram-scores/scores.json
"""
import json
import random
import sys

import numpy
from tokenizers import Tokenizer

EDGES = [
    "-0", "0", "-0.0", "1e-400", "-123456789012345678901234567890",
    "-0.000000000000000000000000000012345678901234567890123", "1e22", "1e23", "5e-324", "-99999999999999999999.5",
    "1E5", "-2.5E+3"
]


def written(kind):
    """A random score as files have it: of float32, of float64, with few or many digits, with an exponent."""
    x = -random.random() * random.choice([1, 10, 20])
    if kind == 0:
        return repr(float(numpy.float32(x)))
    if kind == 1:
        return repr(x)
    if kind == 2:
        return "%.*f" % (random.randint(1, 24), x)
    return "%.*e" % (random.randint(0, 20), x * 10 ** random.randint(-30, 30))


def main(path):
    random.seed(1)
    texts = [written(i % 4) for i in range(4000)] + EDGES
    pieces = "".join(',["p%d",%s]' % (i, text) for i, text in enumerate(texts))
    file = (
        '{"version":"1.0","truncation":null,"padding":null,"added_tokens":[],"normalizer":null,"pre_tokenizer":null,'
        '"post_processor":null,"decoder":null,"model":{"type":"Unigram","unk_id":0,"byte_fallback":false,'
        '"vocab":[["<unk>",0.0]' + pieces + "]}}")
    read = json.loads(Tokenizer.from_str(file).to_str())["model"]["vocab"][1:]
    cases = [(text, value) for text, (_, value) in zip(texts, read)]
    others = [c for c in cases[:4000] if float(c[0]) != c[1]]
    nearest = [c for c in cases[:4000] if float(c[0]) == c[1]]
    kept = others[:120] + nearest[::60] + cases[4000:]
    with open(path, "w") as out:
        out.write("[\n" + ",\n".join("  " + json.dumps([text, repr(value)]) for text, value in kept) + "\n]\n")


main(sys.argv[1])
