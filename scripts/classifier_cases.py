#!/usr/bin/env python3
"""Golden cases of classifiers: transformers' GPT2-, Qwen2-, Bert-, GPTNeoX- and OPTForSequenceClassification on the small
models of the golden data.

    python3 scripts/classifier_cases.py testdata/golden

Needs torch and transformers. Writes downstream/classifier.json: for each model the tensors of a random head, rows with
classes, their logits, and a training of all weights (AdamW at a constant rate, no clipping, no dropout): the loss of
each update, then the mean loss and the predictions of all rows.
"""
import json
import pathlib
import sys

import torch
from transformers import AutoModelForSequenceClassification, set_seed

out = pathlib.Path(sys.argv[1])
torch.set_num_threads(1)
CLASSES, ROWS, SIZE, EPOCHS, RATE, DIGITS = 3, 10, 4, 3, 3e-3, 4
HEADS = ("score.weight", "classifier.weight", "classifier.bias", "bert.pooler.dense.weight", "bert.pooler.dense.bias")


def case(folder: str) -> dict:
    extra = {"is_decoder": False} if "bert" in folder else {}
    model = AutoModelForSequenceClassification.from_pretrained(out / folder, num_labels=CLASSES, dtype=torch.float32,
                                                               **extra)
    model.eval()  # no dropout
    model.config.pad_token_id = 0  # which no row holds, so that the last token is the last one that is not it
    head = {}
    with torch.no_grad():
        for name, p in model.named_parameters():
            if name in HEADS:
                p.copy_(torch.round(0.3 * torch.randn_like(p), decimals=DIGITS))
                head[name] = [round(x, DIGITS) for x in p.flatten().tolist()]
    rows = [torch.randint(1, 100, (int(torch.randint(2, 15, ())),)).tolist() for _ in range(ROWS)]
    classes = [(r[0] + i) % CLASSES for i, r in enumerate(rows)]

    def answer(which):
        width = max(len(rows[i]) for i in which)
        ids = torch.tensor([rows[i] + [0] * (width - len(rows[i])) for i in which])
        return model(input_ids=ids, attention_mask=(ids != 0).long(), labels=torch.tensor([classes[i] for i in which]))

    with torch.no_grad():
        logits = answer(range(ROWS)).logits
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, weight_decay=0.0)
    losses, order = [], []
    for _ in range(EPOCHS):
        permutation = torch.randperm(ROWS).tolist()
        order.append(permutation)
        for at in range(0, ROWS, SIZE):
            optimizer.zero_grad()
            loss = answer(permutation[at:at + SIZE]).loss
            loss.backward()
            optimizer.step()
            losses.append(round(loss.item(), 6))
    with torch.no_grad():
        last = answer(range(ROWS))
    return {
        "model": "../" + folder, "head": head, "rows": rows, "classes": classes,
        "logits": [[round(x, 5) for x in row] for row in logits.tolist()], "learning_rate": RATE, "batch": SIZE,
        "order": order, "losses": losses, "loss": round(last.loss.item(), 6), "best": last.logits.argmax(-1).tolist()
    }


set_seed(20263)
cases = [case(f) for f in ("models/gpt2-tiny", "models/qwen2-tiny", "downstream/bert-tiny", "families/pythia",
                             "families/opt-350m")]
(out / "downstream" / "classifier.json").write_text(json.dumps({"classes": CLASSES, "cases": cases}) + "\n")
