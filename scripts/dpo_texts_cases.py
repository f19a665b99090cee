"""Writes testdata/golden/dpo-texts: how TRL 1.16 turns preference texts into tokens.

    pip install transformers==5.23.0
    pip download trl==1.16.0 --no-deps && unzip trl-*.whl -d trl
    python3 scripts/dpo_texts_cases.py trl testdata/golden/dpo-texts

TRL's own functions are compiled out of its source, because importing the trainer needs torch and the rest of it.
"""
import ast
import json
import logging
import random
import sys
from pathlib import Path

from transformers import PreTrainedTokenizerFast

GOLDEN = Path(__file__).resolve().parent.parent / "testdata" / "golden"
# A tokenizer without a template, one with a token before the text, and one that begins texts with a space and ends them.
TOKENIZERS = ["tokenizers/gpt2-512", "tokenizers/llama3-4096", "sentence/t5"]
WORDS = ["the", "cat", "sat", "on", "a", "mat", "isn't", "12", "3456", ".", ",", "!", "(", ")", "\n", "naïve", "中文", "🙂", "a.b", "=="]


def functions(trl):
    """tokenize_fn and add_eos of DPOTrainer._prepare_dataset."""
    trees = [ast.parse((trl / "trl" / name).read_text()) for name in ("trainer/dpo_trainer.py", "data_utils.py")]
    found = {n.name: n for tree in trees for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)
             and n.name in {"tokenize_fn", "add_eos", "_tokenize", "common_prefix_length"}}
    for n in found.values():
        n.returns = None
        for a in n.args.args + [n.args.kwarg] if n.args.kwarg else n.args.args:
            a.annotation = None
    scope = {"json": json, "is_conversational": lambda e: False, "ProcessorMixin": type(None), "logger": logging.getLogger("trl")}
    logging.Logger.warning_once = logging.Logger.debug
    exec(compile(ast.Module(body=list(found.values()), type_ignores=[]), "trl", "exec"), scope)
    return scope["add_eos"], scope["tokenize_fn"]


def text(words):
    """Words with or without spaces between and around them."""
    out = "".join(random.choice(WORDS) + random.choice(["", " ", " "]) for _ in range(words))
    return random.choice([out, out.strip(), " " + out])


def main(trl, out):
    add_eos, tokenize_fn = functions(Path(trl))
    out.mkdir(parents=True, exist_ok=True)
    random.seed(1)
    with open(out / "cases.jsonl", "w") as file:
        for folder in TOKENIZERS:
            eos = json.loads((GOLDEN / folder / "tokenizer_config.json").read_text())["eos_token"]
            tok = PreTrainedTokenizerFast(tokenizer_file=str(GOLDEN / folder / "tokenizer.json"), eos_token=eos)
            rows = [{"prompt": text(random.randint(1, 6)), "chosen": text(random.randint(1, 5)), "rejected": text(random.randint(1, 5))}
                    for _ in range(60)]
            rows += [{"prompt": "the cat", "chosen": " sat" + eos, "rejected": ""}, {"prompt": "the ca", "chosen": "t", "rejected": "b"},
                     {"prompt": "on " + eos, "chosen": eos, "rejected": "a"}]
            for row in rows:
                ids = tokenize_fn(add_eos(dict(row), tok.eos_token), tok)
                if ids["chosen_ids"] == ids["rejected_ids"] or not ids["prompt_ids"]:
                    continue  # popri refuses the former, and gives the latter a token to begin with
                tokens = {k: ids[k] for k in ("prompt_ids", "chosen_ids", "rejected_ids")}
                file.write(json.dumps({"tokenizer": folder, **row, **tokens}) + "\n")


main(sys.argv[1], Path(sys.argv[2]))
