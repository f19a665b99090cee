#!/usr/bin/env python3
"""Golden cases of small models: BERT as a causal model, and a fine-tuning of GPT-2 as the POPri paper trains
DistilGPT2.

    python3 scripts/downstream_cases.py testdata/golden

Needs torch, transformers and safetensors. Writes downstream/bert-tiny (checkpoint, cases) and downstream/trace.json:
rows of begin, text, end; AdamW at a constant rate without clipping; losses of all updates, and top-1, top-3, top-5 and
loss of held-out rows after each epoch. Dropout is 0 there, because its masks are the generator's own.
"""
import json
import pathlib
import sys

import torch
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM, BertConfig, BertLMHeadModel, set_seed

out = pathlib.Path(sys.argv[1])
torch.set_num_threads(1)


def bert() -> None:
    set_seed(20261)
    folder = out / "downstream" / "bert-tiny"
    config = BertConfig(vocab_size=101, hidden_size=16, num_hidden_layers=2, num_attention_heads=2,
                        intermediate_size=32, max_position_embeddings=24, is_decoder=True, initializer_range=0.2)
    model = BertLMHeadModel(config).eval()
    with torch.no_grad():
        for name, p in model.named_parameters():
            if name.endswith("bias") or "LayerNorm" in name:
                p.add_(0.1 * torch.randn_like(p))
    model.save_pretrained(folder)
    tensors, cases = {}, []
    for name, shape in {"one": (1, 12), "padded": (3, 20)}.items():
        ids = torch.randint(0, 101, shape)
        mask = torch.ones(shape, dtype=torch.long)
        if name == "padded":
            mask[1, 15:], mask[2, 7:] = 0, 0
        labels = ids.masked_fill(mask == 0, -100)
        with torch.no_grad():
            answer = model(input_ids=ids, attention_mask=mask, labels=labels)
        logprobs = torch.zeros(shape)
        logprobs[:, 1:] = answer.logits.log_softmax(-1)[:, :-1].gather(2, ids[:, 1:, None])[..., 0]
        positions = torch.arange(shape[1]).expand(shape).contiguous()
        for key, value in {"input_ids": ids, "attention_mask": mask, "position_ids": positions, "labels": labels,
                           "logits": answer.logits[:, ::3].contiguous(), "logprobs": logprobs}.items():
            tensors[f"{name}/{key}"] = value
        cases.append({"name": name, "shape": list(shape), "loss": answer.loss.item(),
                      "logits_at": list(range(0, shape[1], 3))})
    save_file(tensors, folder / "cases.safetensors")
    (folder / "cases.json").write_text(json.dumps({"cases": cases, "greedy": []}, indent=1) + "\n")
    index = {"models": [{"folder": "bert-tiny", "cases": "bert-tiny"}]}
    (out / "downstream" / "index.json").write_text(json.dumps(index) + "\n")


def finetuning() -> None:
    set_seed(20262)
    model = AutoModelForCausalLM.from_pretrained(out / "models" / "gpt2-tiny")
    model.eval()  # no dropout
    vocabulary, end, length = model.config.vocab_size, model.config.eos_token_id, 16

    def rows(count: int) -> list[list[int]]:
        # A text follows its first token, so that there is something to learn.
        made = []
        for _ in range(count):
            n, x = int(torch.randint(3, 20, ())), int(torch.randint(0, vocabulary, ()))
            text = [(x + 7 * i) % (vocabulary - 1) for i in range(n)]
            made.append(([end] + text + [end])[:length])
        return made

    def batch(list_of_rows):
        width = max(map(len, list_of_rows))
        ids = torch.tensor([r + [0] * (width - len(r)) for r in list_of_rows])
        mask = torch.tensor([[1] * len(r) + [0] * (width - len(r)) for r in list_of_rows])
        return ids, mask, ids.masked_fill(mask == 0, -100)

    train, held = rows(23), rows(9)
    rate, size, epochs = 2e-3, 8, 3
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate, weight_decay=0.0)
    measurements, losses, order = [], [], []

    def measure() -> None:
        ids, mask, labels = batch(held)
        with torch.no_grad():
            logits = model(input_ids=ids, attention_mask=mask).logits[:, :-1]
        target = labels[:, 1:]
        counted = target != -100
        rank = (logits > logits.gather(2, target.clamp(min=0)[..., None])).sum(-1)[counted]
        loss = torch.nn.functional.cross_entropy(logits[counted], target[counted]).item()
        measurements.append({"loss": loss, "tokens": int(counted.sum()),
                             "top": [int((rank < k).sum()) for k in (1, 3, 5)]})

    measure()
    for _ in range(epochs):
        permutation = torch.randperm(len(train)).tolist()
        order.append(permutation)
        for at in range(0, len(train), size):
            ids, mask, labels = batch([train[i] for i in permutation[at:at + size]])
            optimizer.zero_grad()
            loss = model(input_ids=ids, attention_mask=mask, labels=labels).loss
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        measure()
    (out / "downstream" / "trace.json").write_text(
        json.dumps({
            "model": "../models/gpt2-tiny", "length": length, "learning_rate": rate, "batch": size, "rows": train,
            "held": held, "order": order, "losses": losses, "measurements": measurements
        }) + "\n")


bert()
finetuning()
