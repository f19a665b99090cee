#!/usr/bin/env python3
"""Makes the unigram kinds of model/tokenizer/testdata: what the reference library answers for tokenizers like T5's and
XLM-R's.

    pip install tokenizers==0.23.3 sentencepiece==0.2.3 regex==2026.11.15
    python3 scripts/unigram_cases.py [DESTINATION [MODEL...]]

The vocabularies and charsmaps are made by sentencepiece from random strings of atoms. A MODEL, a file of sentencepiece
such as T5's spiece.model, takes the place of these, for a comparison that is too large for the repository.
"""
import base64
import random
import struct
import sys
from pathlib import Path

import tokenizer_cases
from sentencepiece_model import ROOT, fields, train
from tokenizer_cases import ATOMS, cases

# Replacements of all kinds: by more, by fewer, by as many characters; of sequences, of controls, of one with its
# accent.
RULES = {
    "ﬁ": "fi", "Ⅷ": "VIII", "\u212b": "Å", "e\u0301": "é", "A\u030a": "Å", "\u1e9b\u0323": "ṩ", "n\u0303": "ñ",
    "²": "2", "\u00ad": "", "\ufeff": "", "\n": " ", "\t": " ", "\u3000": " ", "\u1112\u1161": "하", "\uf900": "豈",
    "İ": "i\u0307", "q": "Q", "\u0001": "", "\r\n": " ", "ａ": "a", "½": "1⁄2", "ﷺ": "صلى الله"
}
MORE = [
    "\u0001", "ａ", "ａ\u0301", "½", "½\u0308", "ﷺ", "\r\n", "\r", "\u0600a", "\u0600", "🇫🇷", "🇫", "\u0301", "👍🏽",
    "❤\ufe0f", "©\ufe0f", "👩\u200d🚀", "\u0915\u094d\u0915", "\u0915\u094d", "\u0915\u0301", "\u0e33", "a\u0e33",
    "\u1100", "\u11a8", "각\u11a8", "가\u1161", "가\u11a8", "\u3000", "\u2028", "\u1680", "<mask>", " <mask> ",
    "<extra_id_0>", "  <extra_id_0>  ", "the", " upon", "時", "語", "ñandú", "q\u0301", "¡", "ж", "жи"
]


def tokenizer(pieces, charsmap, normalizer, pre, decoder, unknown, byte_fallback=False, specials=()):
    ids = {p: i for i, (p, _) in enumerate(pieces)}
    added = [{
        "id": ids[c], "content": c, "single_word": False, "lstrip": l, "rstrip": r, "normalized": False, "special": True
    } for c, l, r in specials]
    end = {"SpecialToken": {"id": "</s>", "type_id": 0}}
    text = {"Sequence": {"id": "A", "type_id": 0}}
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": sorted(added, key=lambda t: t["id"]),
            "normalizer": normalizer, "pre_tokenizer": pre, "decoder": decoder,
            "post_processor": {"type": "TemplateProcessing", "single": [text, end], "pair": [text, end],
                               "special_tokens": {"</s>": {"id": "</s>", "ids": [ids["</s>"]], "tokens": ["</s>"]}}},
            "model": {"type": "Unigram", "unk_id": unknown, "vocab": pieces, "byte_fallback": byte_fallback}}


def kinds(prefix, pieces, charsmap, destination, *size):
    """The kinds of files that converters write for one model of sentencepiece."""
    unknown = next(i for i, (p, _) in enumerate(pieces) if p == "<unk>")
    precompiled = {"type": "Precompiled", "precompiled_charsmap": charsmap}
    space = {"type": "Metaspace", "replacement": "▁", "add_prefix_space": True}
    scheme = lambda name, split: {"type": "Metaspace", "replacement": "▁", "prepend_scheme": name, "split": split}
    runs = lambda by: {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": by}
    words = {"type": "Sequence", "pretokenizers": [{"type": "WhitespaceSplit"}, space]}
    t5 = pieces + [["<extra_id_0>", 0.0]]
    specials = (("<unk>", False, False), ("</s>", False, False), ("<extra_id_0>", True, True))
    cases(prefix + "unigram-t5", tokenizer(t5, charsmap, precompiled, words, space, unknown, specials=specials),
          destination, 11, *size)
    xlmr = pieces + [["<mask>", 0.0]]
    specials = (("<s>", False, False), ("</s>", False, False), ("<mask>", True, False))
    steps = {
        "type": "Sequence",
        "normalizers": [precompiled, {"type": "Strip", "strip_left": False, "strip_right": True},
                        runs("▁")]
    }
    cases(prefix + "unigram-xlmr",
          tokenizer(xlmr, charsmap, steps, scheme("first", True), scheme("first", True), unknown, specials=specials),
          destination, 12, *size)
    steps = {
        "type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "▁"},
                                            {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}]
    }
    decoder = {"type": "Sequence", "decoders": [
        {"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"},
        {"type": "Strip", "content": " ", "start": 1, "stop": 0}]}
    fallback = pieces + [[f"<0x{b:02X}>", -20.0] for b in range(256) if f"<0x{b:02X}>" not in dict(map(tuple, pieces))]
    cases(prefix + "unigram-bytes", tokenizer(fallback, charsmap, steps, None, decoder, unknown, True), destination, 13,
          *size)
    steps = {
        "type": "Sequence", "normalizers": [{"type": "Strip", "strip_left": True, "strip_right": True}, precompiled,
                                            runs(" ")]
    }
    cases(prefix + "unigram-never",
          tokenizer(pieces, charsmap, steps, scheme("never", False), scheme("never", False), unknown), destination, 14,
          *size)


def main():
    destination = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "model" / "tokenizer" / "testdata"
    tokenizer_cases.ATOMS[:] = sorted(set(ATOMS + MORE), key=lambda a: (len(a), a))
    for path in map(Path, sys.argv[2:]):
        model = list(fields(path.read_bytes()))
        pieces = [dict(fields(v)) for k, v in model if k == 1]
        pieces = [[p[1].decode(), struct.unpack("<f", p[2])[0] if 2 in p else 0.0] for p in pieces]
        charsmap = base64.b64encode(dict(fields(next(v for k, v in model if k == 3)))[2]).decode()
        kinds(path.stem + "-", pieces, charsmap, destination)
    if len(sys.argv) < 3:
        rng = random.Random(10)
        text = "\n".join(" ".join("".join(rng.choices(ATOMS, k=rng.randint(1, 4))) for _ in range(8))
                         for _ in range(400))
        kinds("", *train(RULES, text.replace("\0", "") + "\n", 160, character_coverage=0.98), destination, 60, 30)


if __name__ == "__main__":
    main()
