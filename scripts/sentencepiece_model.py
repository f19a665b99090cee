"""Small models of SentencePiece, for the scripts that make cases of tokenizers.

    pip install sentencepiece==0.2.3
"""
import base64
import struct
import tempfile
from pathlib import Path

import sentencepiece

ROOT = Path(__file__).resolve().parent.parent


def fields(message):
    """The fields of a protocol buffer: number and value."""
    at = 0

    def number():
        nonlocal at
        value = shift = 0
        while True:
            byte = message[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < len(message):
        key = number()
        length = {0: 0, 1: 8, 2: None, 5: 4}[key & 7]
        if length == 0:
            yield key >> 3, number()
            continue
        if length is None:
            length = number()
        yield key >> 3, message[at:at + length]
        at += length


def train(rules, text="one two three\n" * 20, size=20, **settings):
    """A unigram model of sentencepiece that replaces the strings that are the keys of rules: its pieces with scores,
    and the charsmap."""
    with tempfile.TemporaryDirectory() as folder:
        table, path = Path(folder) / "rules.tsv", Path(folder) / "text"
        points = lambda s: " ".join(f"{ord(c):X}" for c in s)
        table.write_text("".join(f"{points(k)}\t{points(v)}\n" for k, v in rules.items()))
        path.write_text(text)
        sentencepiece.SentencePieceTrainer.train(
            input=str(path), model_prefix=str(Path(folder) / "m"), model_type="unigram", vocab_size=size,
            hard_vocab_limit=False, minloglevel=2, normalization_rule_tsv=str(table), num_threads=1, **settings)
        model = list(fields((Path(folder) / "m.model").read_bytes()))
    pieces = [dict(fields(value)) for key, value in model if key == 1]
    pieces = [[p[1].decode(), struct.unpack("<f", p[2])[0] if 2 in p else 0.0] for p in pieces]
    normalizer = next(value for key, value in model if key == 3)
    return pieces, base64.b64encode(dict(fields(normalizer))[2]).decode()
