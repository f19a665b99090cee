#!/usr/bin/env python3
"""Makes testdata/golden/masked: a small BERT and a small RoBERTa that predict masked tokens, and what they predict.

    python3 scripts/masked_cases.py testdata/golden

Needs torch, transformers and safetensors. Encoder and tokenizer are from embedding/bert-tiny and sentence/roberta,
the head is random. Weights are stored in half precision and computed with in float32. For each row: its tokens, the
places that are masked, the logits there, and the tokens with the highest ones.
"""
import json
import pathlib
import shutil
import sys

import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForMaskedLM, set_seed

out = pathlib.Path(sys.argv[1])
torch.set_num_threads(1)
ROWS, DIGITS = 8, 4


def case(source: str, name: str, special: int, mask: int) -> None:
    model = AutoModelForMaskedLM.from_pretrained(out / source, dtype=torch.float32).eval()
    with torch.no_grad():
        for p in model.parameters():
            p.copy_(p.half().float())
        for k, p in model.named_parameters():
            if k.startswith(("cls.", "lm_head.")):
                p.copy_((p + 0.3 * torch.randn_like(p)).half().float())
    to = out / "masked" / name
    shutil.rmtree(to, ignore_errors=True)
    model.half().save_pretrained(to)
    (to / "generation_config.json").unlink(missing_ok=True)
    for f in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copyfile(out / source / f, to / f)
    tensors = load_file(to / "model.safetensors")
    save_file(tensors, to / "model.safetensors", metadata={"format": "pt"})
    model = AutoModelForMaskedLM.from_pretrained(to, dtype=torch.float32).eval()
    rows, places = [], []
    for _ in range(ROWS):
        length = int(torch.randint(2, 16, ()))
        rows.append(torch.randint(special, model.config.vocab_size, (length,)).tolist())
        chosen = torch.rand(length) < 0.4
        chosen[int(torch.randint(0, length, ()))] = True
        places.append(chosen.nonzero().flatten().tolist())
    width = max(map(len, rows))
    ids = torch.full((ROWS, width), model.config.pad_token_id)
    seen = torch.zeros((ROWS, width), dtype=torch.long)
    for i, row in enumerate(rows):
        ids[i, :len(row)], seen[i, :len(row)] = torch.tensor(row), 1
        ids[i, places[i]] = mask
    with torch.no_grad():
        logits = model(input_ids=ids, attention_mask=seen).logits
    cases = [{"row": row, "masked": at, "best": logits[i, at].argmax(-1).tolist(),
              "logits": [[round(x, DIGITS) for x in v] for v in logits[i, at].tolist()]}
             for i, (row, at) in enumerate(zip(rows, places))]
    (to / "cases.json").write_text(json.dumps({"mask": mask, "cases": cases}, separators=(",", ":")) + "\n")


def token(source: str, name: str) -> int:
    added = json.loads((out / source / "tokenizer.json").read_text())["added_tokens"]
    return next(t["id"] for t in added if t["content"] == name)


set_seed(20264)
case("embedding/bert-tiny", "bert", 5, token("embedding/bert-tiny", "[MASK]"))
case("sentence/roberta", "roberta", 5, token("sentence/roberta", "<mask>"))
