#!/usr/bin/env python3
"""Makes model/tokenizer/testdata/sentencepiece: small model files of SentencePiece, and the ids that transformers
gives with them.

    pip install transformers==5.23.0 sentencepiece==0.2.3 protobuf regex==2026.11.15
    python3 scripts/sentencepiece_cases.py [DESTINATION [TEXTS PIECES]]

The texts are random strings of atoms. The same seed and libraries give the same ids.
"""
import random
import sys
import tempfile
from pathlib import Path

import sentencepiece
from transformers import CamembertTokenizer, T5Tokenizer, XLMRobertaTokenizer

from sentencepiece_model import ROOT
from tokenizer_cases import ATOMS, write_lines
from unigram_cases import MORE, RULES

KINDS = {
    "t5": (T5Tokenizer, "spiece.model", dict(pad_id=0, eos_id=1, unk_id=2, bos_id=-1, user_defined_symbols=["<sep>"])),
    "xlm-roberta": (XLMRobertaTokenizer, "sentencepiece.bpe.model", dict(unk_id=0, bos_id=1, eos_id=2)),
    "camembert": (CamembertTokenizer, "sentencepiece.bpe.model", dict(unk_id=0, bos_id=1, eos_id=2))
}


def main():
    committed = ROOT / "model" / "tokenizer" / "testdata" / "sentencepiece"
    destination = Path(sys.argv[1]) if len(sys.argv) > 1 else committed
    texts, pieces = map(int, sys.argv[2:4]) if len(sys.argv) > 3 else (20, 140)
    atoms = sorted({*ATOMS, *MORE, "<sep>", "<extra_id_7>", "<pad>", "</s>", "<s>NOTUSED"}, key=lambda a: (len(a), a))
    rng = random.Random(30)
    corpus = "\n".join(" ".join("".join(rng.choices(atoms, k=rng.randint(1, 4))) for _ in range(8)) for _ in range(400))
    strings = ["", " ", *("".join(rng.choices(atoms, k=rng.randint(2, 14))) for _ in range(texts))]
    for kind, (tokenizer, name, settings) in KINDS.items():
        out = destination / kind
        out.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory() as folder:
            rules, text = Path(folder) / "rules.tsv", Path(folder) / "text"
            points = lambda s: " ".join(f"{ord(c):X}" for c in s)
            rules.write_text("".join(f"{points(k)}\t{points(v)}\n" for k, v in RULES.items()))
            text.write_text(corpus.replace("\0", "") + "\n")
            sentencepiece.SentencePieceTrainer.train(input=str(text), model_prefix=str(out / "m"), model_type="unigram",
                                                     vocab_size=pieces, hard_vocab_limit=False, minloglevel=2,
                                                     normalization_rule_tsv=str(rules), num_threads=1,
                                                     character_coverage=0.98, **settings)
        (out / "m.vocab").unlink()
        (out / "m.model").rename(out / name)
        reference = tokenizer.from_pretrained(str(out))
        rows = [{"text": t, "ids": reference(t)["input_ids"], "size": len(reference)} for t in strings]
        write_lines(out / "cases.jsonl", rows)


if __name__ == "__main__":
    main()
