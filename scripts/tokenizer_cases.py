#!/usr/bin/env python3
"""Makes model/tokenizer/testdata: what the reference library answers for kinds of tokenizers that testdata/golden
lacks.

    pip install tokenizers==0.23.3
    python3 scripts/tokenizer_cases.py STORIES260K [DESTINATION]

STORIES260K is the folder of that model (MIT licence), whose tokenizer.json is BPE with byte fallback. The other kinds
are made from it and from testdata/golden: the same with Metaspace, byte-level BPE with NFC and Qwen's split,
RoBERTa's, GPT-NeoX's, a cased BERT. Texts are random strings of atoms. The same seed and library give the same bytes. --classes
writes the classes of letters with and without case into model/tokenizer/unicode.json instead.
"""
import json
import random
import sys
from pathlib import Path

from tokenizers import Regex, Tokenizer, pre_tokenizers

ROOT = Path(__file__).resolve().parent.parent
ATOMS = [
    " ", "  ", "   ", "\n", "\t", "a", "the", " the", "Once", "upon", "Lily", "x1", "12", "345", "  7", "²", ".", ",",
    "!", "'s", "n't", "▁", " ▁", "é", "e\u0301", "A\u030a", "\u1e9b\u0323", "ﬁ", "ñ", "n\u0303", "한",
    "\u1112\u1161\u11ab", "\u1112\u1161", "日本", "\uf900", "Ⅷ", "😀", "\u200d", "\u00ad", "\ufeff", "\u0000", "ß", "İ",
    "ς", "ſ", "<s>", "</s>", "<unk>", "<|endoftext|>", "[CLS]", "[UNK]", "<0x41>", "\u0344", "q\u0307\u0323",
    "q\u0323\u0307", "\u212b", "ö", "ü̈", "Z", "q",
]
# Capitals, letters without case and marks, for the split that distinguishes them.
CASED = [
    "HTTPServer", "iPhone", "McDonald's", "DON'T", "a'LL", "'S", "Ab", "aB", "ǅ", "ªB", "Bª", "ｱ", "ա", "Ա", "AͅB",
    "\u0301x", "\u0301", "x\u0301Y", "//\n", "./a", "ＡＢｃ", "日A本b", "ـA", "Aـ", "-A", "\t\tB", "_Cd", "´E\u0301f"
]


def write_lines(path, rows):
    path.write_text("".join(json.dumps(r, ensure_ascii=True, separators=(",", ":")) + "\n" for r in rows),
                    encoding="utf-8")


def cases(name, source, destination, seed, texts=220, decodings=120, atoms=ATOMS):
    out = destination / name
    out.mkdir(parents=True, exist_ok=True)
    text = json.dumps(source, ensure_ascii=False, indent=1) + "\n"
    (out / "tokenizer.json").write_text(text, encoding="utf-8")
    reference = Tokenizer.from_str(text)
    reference.no_truncation()
    reference.no_padding()
    special = {t["id"] for t in source["added_tokens"] if t["special"]}
    # This version of the reference does not leave out special tokens that are normalized. They are special all the
    # same.
    skipped = lambda ids: reference.decode([i for i in ids if i not in special], skip_special_tokens=True)
    rng = random.Random(seed)
    strings = ["", *atoms] + ["".join(rng.choices(atoms, k=rng.randint(2, 14))) for _ in range(texts)]
    rows = []
    for t in strings:
        e = reference.encode(t, add_special_tokens=False)
        at = [0]
        for c in t:
            at.append(at[-1] + len(c.encode()))
        row = {"kind": "atoms", "text": t, "ids": e.ids, "char_offsets": [x for o in e.offsets for x in o],
               "byte_offsets": [at[x] for o in e.offsets for x in o]}
        for key, decoded in (("decoded", reference.decode(e.ids, skip_special_tokens=False)),
                             ("decoded_skip_special", skipped(e.ids))):
            row[key] = None if decoded == t else decoded
        rows.append(row)
    write_lines(out / "cases.jsonl", rows)
    size = reference.get_vocab_size(with_added_tokens=True)
    decodes = []
    for _ in range(decodings):
        ids = [rng.randrange(size if rng.random() < 0.6 else min(size, 270)) for _ in range(rng.randint(1, 12))]
        decodes.append({"kind": "any", "ids": ids, "decoded": reference.decode(ids, skip_special_tokens=False),
                        "decoded_skip_special": skipped(ids)})
    write_lines(out / "decode.jsonl", decodes)
    template = reference.encode("a").ids, reference.encode("a", add_special_tokens=False).ids
    plain = template[1]
    start = next(i for i in range(len(template[0])) if template[0][i:i + len(plain)] == plain)
    meta = {"cases": len(rows), "decode_cases": len(decodes), "vocab_size": size,
            "template": {"prefix": template[0][:start], "suffix": template[0][start + len(plain):]},
            "special_ids": {t["content"]: t["id"] for t in source["added_tokens"] if t["special"]}}
    (out / "meta.json").write_text(json.dumps(meta, indent=1) + "\n", encoding="utf-8")


def roberta(source, prefix):
    """RoBERTa's file with the pieces of another byte-level BPE, which get their numbers after the special tokens. With
    prefix, a space goes before the text."""
    first = ["<s>", "<pad>", "</s>", "<unk>"]
    pieces = [
        p for p in source["model"]["vocab"]
        if p not in first and p not in {t["content"] for t in source["added_tokens"]}
    ]
    ids = {p: i for i, p in enumerate([*first, *pieces, "<mask>"])}
    added = [{
        "id": ids[t], "content": t, "single_word": False, "lstrip": t == "<mask>", "rstrip": False,
        "normalized": t != "<mask>", "special": True
    } for t in (*first, "<mask>")]
    step = {"type": "ByteLevel", "add_prefix_space": prefix, "trim_offsets": True, "use_regex": True}
    around = {
        "type": "RobertaProcessing", "sep": ["</s>", 2], "cls": ["<s>", 0], "trim_offsets": True,
        "add_prefix_space": prefix
    }
    model = {**source["model"], "vocab": ids, "continuing_subword_prefix": "", "end_of_word_suffix": ""}
    return {
        **source, "truncation": {"direction": "Right", "max_length": 128, "strategy": "LongestFirst", "stride": 0},
        "padding": {
            "strategy": "BatchLongest", "direction": "Right", "pad_to_multiple_of": None, "pad_id": 1, "pad_type_id": 0,
            "pad_token": "<pad>"
        }, "added_tokens": added, "pre_tokenizer": step, "post_processor": around, "decoder": step, "model": model
    }


O200K = "|".join([
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"\p{N}{1,3}", r" ?[^\s\p{L}\p{N}]+[\r\n/]*", r"\s*[\r\n]+", r"\s+(?!\S)", r"\s+"
])


def classes():
    path = ROOT / "model" / "tokenizer" / "unicode.json"
    facts = json.loads(path.read_text(encoding="utf-8"))
    for name, regex in (("upper", r"[\p{Lu}\p{Lt}]"), ("lower", r"\p{Ll}"), ("M", r"\p{M}")):
        isolated, ranges = pre_tokenizers.Split(Regex(regex), "removed"), []
        for point in (p for p in range(0x110000) if not 0xd800 <= p < 0xe000):
            if isolated.pre_tokenize_str(chr(point)):
                continue
            if ranges and ranges[-1][1] == point - 1:
                ranges[-1][1] = point
            else:
                ranges.append([point, point])
        facts["regex"][name] = ranges
    path.write_text(json.dumps(facts, separators=(",", ":")) + "\n", encoding="utf-8")


def main():
    if sys.argv[1:] == ["--classes"]:
        return classes()
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__.strip())
    read = lambda path: json.loads(Path(path).read_text(encoding="utf-8"))
    stories = read(Path(sys.argv[1]) / "tokenizer.json")
    destination = Path(sys.argv[2]) if len(sys.argv) == 3 else ROOT / "model" / "tokenizer" / "testdata"
    cases("byte-fallback", stories, destination, 1)
    normalized = [{**t, "normalized": True} for t in stories["added_tokens"]]
    cases("byte-fallback-normalized", {**stories, "added_tokens": normalized}, destination, 5)
    for scheme in ("first", "always"):
        space = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": scheme, "split": False}
        cases("metaspace-" + scheme, {**stories, "normalizer": None, "pre_tokenizer": space}, destination, 2)
    bytes_ = read(ROOT / "testdata" / "golden" / "tokenizers" / "gpt2-512" / "tokenizer.json")
    qwen = (
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    )
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False}
    split = {"type": "Split", "pattern": {"Regex": qwen}, "behavior": "Isolated", "invert": False}
    cases("qwen-nfc", {**bytes_, "normalizer": {"type": "NFC"}, "post_processor": level,
                       "pre_tokenizer": {"type": "Sequence", "pretokenizers": [split, level]}}, destination, 3)
    split = {**split, "pattern": {"Regex": O200K}}
    cases("o200k",
          {**bytes_, "post_processor": level, "pre_tokenizer": {"type": "Sequence", "pretokenizers": [split, level]}},
          destination, 8, 900, atoms=ATOMS + 2 * CASED)
    spaces = {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}
    before = {"type": "Split", "pattern": {"String": " "}, "behavior": "MergedWithPrevious", "invert": False}
    back = {
        "type": "Sequence", "decoders": [{**spaces, "pattern": {"String": "▁"}, "content": " "},
                                         {"type": "ByteFallback"}, {"type": "Fuse"}]
    }
    cases("gemma", {**stories, "normalizer": spaces, "pre_tokenizer": before, "decoder": back}, destination, 9)
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    untyped = {k: v for k, v in bytes_["model"].items() if k != "type"}
    cases(
        "digits", {
            **bytes_, "model": untyped, "pre_tokenizer": {
                "type": "Sequence", "pretokenizers": [{"type": "Digits", "individual_digits": True}, level]
            }
        }, destination, 6)
    for name, prefix in (("roberta", False), ("roberta-prefix", True)):
        cases(name, roberta(bytes_, prefix), destination, 7, 90, 30)
    # Runs of spaces are tokens, which are searched for after the normalizer.
    count = 1 + max(t["id"] for t in bytes_["added_tokens"])
    runs = [{"id": count + i, "content": " " * (6 - i), "single_word": False, "lstrip": False, "rstrip": False,
             "normalized": True, "special": False} for i in range(5)]
    whole = {**level, "use_regex": True}
    cases("neox", {**bytes_, "normalizer": {"type": "NFC"}, "pre_tokenizer": whole, "post_processor": whole, "decoder": whole,
                   "added_tokens": bytes_["added_tokens"] + runs}, destination, 10, 120, 40)
    vocab = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    letters = [chr(c) for c in range(33, 127)] + list("éñöß한日本一ſς😀")
    vocab += letters + ["##" + c for c in letters if not c.isascii() or c.isalnum()
                        ] + ["the", "##he", "On", "##ce", "Lil", "##ly", "##n't", "up", "##on"]
    special = [{
        "id": i, "content": t, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
        "special": True
    } for i, t in enumerate(vocab[:5])]
    case = {
        "id": len(vocab), "content": "Once", "single_word": False, "lstrip": False, "rstrip": False, "normalized": True,
        "special": False
    }
    for name, lower in (("bert-cased", False), ("bert-uncased", True)):
        cases(
            name, {
                "version": "1.0", "truncation": None, "padding": None, "added_tokens": special + [case], "normalizer": {
                    "type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "strip_accents": None,
                    "lowercase": lower
                }, "pre_tokenizer": {"type": "BertPreTokenizer"}, "post_processor": {
                    "type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "[CLS]", "type_id": 0}}, {
                        "Sequence": {"id": "A", "type_id": 0}
                    }, {"SpecialToken": {"id": "[SEP]", "type_id": 0}}], "pair": [{
                        "Sequence": {"id": "A", "type_id": 0}
                    }, {"Sequence": {"id": "B", "type_id": 1}}], "special_tokens": {
                        t: {"id": t, "ids": [i], "tokens": [t]} for t, i in (("[CLS]", 2), ("[SEP]", 3))
                    }
                }, "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True}, "model": {
                    "type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
                    "max_input_chars_per_word": 20, "vocab": {t: i for i, t in enumerate(dict.fromkeys(vocab))}
                }
            }, destination, 4)


if __name__ == "__main__":
    main()
