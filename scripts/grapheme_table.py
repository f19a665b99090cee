#!/usr/bin/env python3
"""Writes tokenizer/grapheme_tables.go: the properties by which the reference cuts a text into grapheme clusters.

    pip install tokenizers==0.23.3 sentencepiece==0.2.3 regex==2026.11.15
    python3 scripts/grapheme_table.py

The properties are those of `regex`, whose Unicode may be newer than the reference's. So each code point is also asked of
the reference: which ones join the letter before them, and which consonants and linkers make a conjunct.
"""
import base64
import json
import struct
import subprocess
import tempfile
from pathlib import Path

import regex
import sentencepiece
from tokenizers import Tokenizer

ROOT = Path(__file__).resolve().parent.parent
POINTS = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]
EVERY = "".join(map(chr, POINTS))


def has(expression):
    return {ord(c) for c in regex.findall(expression, EVERY)}


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
    """A unigram model of sentencepiece that replaces the strings that are the keys of rules: its pieces with scores, and
    the charsmap."""
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


def reference(rules):
    """The reference's normalizer with these rules."""
    return Tokenizer.from_str(json.dumps({
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "pre_tokenizer": None,
        "normalizer": {"type": "Precompiled", "precompiled_charsmap": train(rules)[1]}, "post_processor": None,
        "decoder": None, "model": {"type": "Unigram", "unk_id": 0, "vocab": [["<unk>", 0.0]]}})).normalizer


def main():
    # A cluster of at most five bytes is replaced as a whole, so what follows the letter is gone if it joins.
    joins = reference({"a": "X"})
    joined = {c for c in POINTS if joins.normalize_str("a" + chr(c)) == "X"}
    consonants = has(r"\p{InCB=Consonant}")
    conjuncts = reference({chr(c): "X" for c in consonants})
    # After a conjunct the cluster is longer, so the accent stays.
    together = lambda first, linker, c: conjuncts.normalize_str(first + linker + c + "\u0301").endswith("\u0301")
    consonants = {c for c in consonants if len(chr(c).encode()) == 3 and together("\u0915", "\u094d", chr(c))}
    linkers = {c for c in has(r"\p{InCB=Linker}") if together("\u0915", chr(c), "\u0915")}
    table = {}
    for name, members in (
            ("control", has(r"[\p{GCB=Control}\p{GCB=CR}\p{GCB=LF}]")), ("extend", has(r"\p{GCB=Extend}") & joined),
            ("joiner", has(r"\p{GCB=ZWJ}")), ("regional", has(r"\p{GCB=RI}")), ("prepend", has(r"\p{GCB=Prepend}")),
            ("spacing", has(r"\p{GCB=SpacingMark}") & joined), ("leading", has(r"\p{GCB=L}")),
            ("vowel", has(r"\p{GCB=V}")), ("trailing", has(r"\p{GCB=T}")), ("picture", has(r"\p{ExtPict}")),
            ("consonant", consonants), ("linker", linkers)):
        for c in members:
            table.setdefault(c, []).append("cluster" + name.title())
    ranges = []
    for c in sorted(table):
        value = "|".join(table[c])
        if ranges and ranges[-1][1] == c - 1 and ranges[-1][2] == value:
            ranges[-1][1] = c
        else:
            ranges.append([c, c, value])
    lines, line = [], "\t"
    for first, last, value in ranges:
        entry = f"{{{first:#x}, {last:#x}, {value}}},"
        if len(line) + len(entry) > 116:
            lines.append(line.rstrip())
            line = "\t"
        line += entry + " "
    lines.append(line.rstrip())
    missing = joined - {c for c in table if "clusterExtend" in table[c] or "clusterSpacing" in table[c]
                        or "clusterJoiner" in table[c]}
    if missing:
        raise SystemExit(f"grapheme_table: regex knows nothing of {sorted(map(hex, missing))}")
    path = ROOT / "tokenizer" / "grapheme_tables.go"
    path.write_text("// Code generated by scripts/grapheme_table.py; DO NOT EDIT.\n\npackage tokenizer\n\n"
                    "// clusterRanges lists, in ascending order, the code points that the rules of grapheme clusters name; the\n"
                    "// syllables of Hangul are computed.\nvar clusterRanges = [...]clusterRange{\n" + "\n".join(lines) + "\n}\n")
    subprocess.run(["gofmt", "-w", str(path)], check=True)
    print(f"{path}: {len(ranges)} ranges; {len(consonants)} consonants, {len(linkers)} linkers")


if __name__ == "__main__":
    main()
