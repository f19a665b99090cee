"""Writes testdata/golden/dpo-texts: how TRL 1.16 turns preference texts and conversations into tokens.

    pip install transformers==5.23.0 jinja2
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
from types import SimpleNamespace

from transformers import PreTrainedTokenizerFast

GOLDEN = Path(__file__).resolve().parent.parent / "testdata" / "golden"
# A tokenizer without a template, one with a token before the text, and one that begins texts with a space and ends
# them.
TOKENIZERS = ["tokenizers/gpt2-512", "tokenizers/llama3-4096", "sentence/t5"]
WORDS = [
    "the", "cat", "sat", "on", "a", "mat", "isn't", "12", "3456", ".", ",", "!", "(", ")", "\n", "naïve", "中文", "🙂",
    "a.b", "=="
]


def functions(trl):
    """tokenize_fn and add_eos of DPOTrainer._prepare_dataset."""
    trees = [ast.parse((trl / "trl" / name).read_text()) for name in ("trainer/dpo_trainer.py", "data_utils.py")]
    found = {
        n.name: n for tree in trees for n in ast.walk(tree) if isinstance(n, ast.FunctionDef) and n.name in {
            "tokenize_fn", "add_eos", "_tokenize", "common_prefix_length", "is_conversational", "maybe_extract_prompt",
            "extract_prompt"
        }
    }
    for n in found.values():
        n.returns = None
        for a in n.args.args + [n.args.kwarg] if n.args.kwarg else n.args.args:
            a.annotation = None
    scope = {"json": json, "ProcessorMixin": type(None), "logger": logging.getLogger("trl")}
    logging.Logger.warning_once = logging.Logger.debug
    exec(compile(ast.Module(body=list(found.values()), type_ignores=[]), "trl", "exec"), scope)
    return SimpleNamespace(**scope)


def text(words):
    """Words with or without spaces between and around them."""
    out = "".join(random.choice(WORDS) + random.choice(["", " ", " "]) for _ in range(words))
    return random.choice([out, out.strip(), " " + out])


# The forms of chat templates: ChatML as SmolLM2 has it, with a prompt of its own; lines and trimmed texts; tags that
# transformers adds to Jinja, a namespace, a reason to refuse, the last message, and blanks between two tags.
CHATML = (
    "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}"
    "{{ '<|im_start|>system\nBe kind<|im_end|>\n' }}{% endif %}"
    "{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}")
LINES = """{% for m in messages %}
    {% if m.role == 'assistant' %}
{{ '<|assistant|>\n' + m.content | trim + eos_token }}
    {% else %}
{{ '<|' + m.role + '|>\n' + m['content'] + eos_token }}
    {% endif %}
{% endfor %}
{%- if add_generation_prompt -%}
{{ '<|assistant|>' }}
{% endif %}"""
TAGS = """{%- set state = namespace(turn=0) -%}
{%- if messages[0].role == 'system' %}{% set rest = messages[1:] %}{% else %}{% set rest = messages %}{% endif -%}
{%- for m in rest -%}
{%- if (m.role == 'user') != (state.turn % 2 == 0) -%}{{ raise_exception('roles must alternate') }}{%- endif -%}
{%- set state.turn = state.turn + 1 -%}
{%- if m.role == 'user' %}[INST] {{ m.content.strip() }} [/INST]{% else %}{% generation %} {{ m.content | tojson }}{{ eos_token }}{% endgeneration %}{% endif -%}
{%- endfor -%}
{% if messages[-1]['role'] == 'user' %} {% if add_generation_prompt %}[OUT]{% endif %}{% endif %}"""
TEMPLATES = {"chatml": CHATML, "lines": LINES, "tags": TAGS}


def conversations():
    """Rows of each form: with a prompt, with an implicit one, and with a prompt beside whole conversations."""
    turn = lambda role: {"role": role, "content": text(random.randint(1, 5))}
    for i in range(8):
        prompt = [turn("system")] * (i % 2) + [turn("user")] + [turn("assistant"), turn("user")] * (i % 3 == 2)
        chosen, rejected = [turn("assistant")], [turn("assistant")]
        yield {"prompt": prompt, "chosen": chosen, "rejected": rejected}
        yield {"chosen": prompt + chosen, "rejected": prompt + rejected}
        yield {
            "prompt": prompt[-1]["content"], "chosen": prompt + chosen, "rejected": prompt + rejected,
            "score_chosen": 4.5
        }


def cut(ids, length):
    """What DataCollatorForPreference leaves of a row under keep_start."""
    room = length - len(ids["prompt_ids"])
    return ids | {k: ids[k][:room] for k in ("chosen_ids", "rejected_ids")}


def main(trl, out):
    own = functions(Path(trl))
    out.mkdir(parents=True, exist_ok=True)
    random.seed(1)

    def tokens(tok, row):
        row = dict(row)
        if "prompt" not in row or isinstance(row["chosen"], list):
            row = own.maybe_extract_prompt(row)
        if not own.is_conversational(row):
            row = own.add_eos(row, tok.eos_token)
        ids = own.tokenize_fn(row, tok)
        if ids["chosen_ids"] == ids["rejected_ids"] or not ids["prompt_ids"]:
            return None  # popri refuses the former, and gives the latter a token to begin with
        return {k: ids[k] for k in ("prompt_ids", "chosen_ids", "rejected_ids")}

    def tokenizer(folder):
        eos = json.loads((GOLDEN / folder / "tokenizer_config.json").read_text())["eos_token"]
        return PreTrainedTokenizerFast(tokenizer_file=str(GOLDEN / folder / "tokenizer.json"), eos_token=eos)

    with open(out / "cases.jsonl", "w") as file:
        for folder in TOKENIZERS:
            tok = tokenizer(folder)
            rows = [{
                "prompt": text(random.randint(1, 6)), "chosen": text(random.randint(1, 5)),
                "rejected": text(random.randint(1, 5))
            } for _ in range(60)]
            rows += [{"prompt": "the cat", "chosen": " sat" + tok.eos_token, "rejected": ""},
                     {"prompt": "the ca", "chosen": "t", "rejected": "b"},
                     {"prompt": "on " + tok.eos_token, "chosen": tok.eos_token, "rejected": "a"}]
            for row in rows:
                if ids := tokens(tok, row):
                    file.write(json.dumps({"tokenizer": folder, **row, **ids}) + "\n")
    random.seed(2)
    for name, template in TEMPLATES.items():
        (out / f"{name}.jinja").write_text(template)
    with open(out / "forms.jsonl", "w") as file:
        for folder in TOKENIZERS[:2]:
            tok = tokenizer(folder)
            texts = [{"chosen": p + text(3), "rejected": p + text(2)} for p in (text(4) for _ in range(12))]
            texts += [{"chosen": "the mat", "rejected": "the mat on a cat"},
                      {"chosen": "naïve cat", "rejected": "naïve 🙂"}]
            for template in ("", *TEMPLATES):
                tok.chat_template = TEMPLATES.get(template)
                for i, row in enumerate(conversations() if template else texts):
                    if (ids := tokens(tok, row)) is None:
                        continue
                    length = len(ids["prompt_ids"]) + 2 if i % 4 == 3 else 0
                    ids = cut(ids, length) if length else ids
                    if ids["chosen_ids"] != ids["rejected_ids"]:
                        file.write(
                            json.dumps(
                                {"tokenizer": folder, "template": template, "max_length": length, "row": row, **ids})
                            + "\n")


main(sys.argv[1], Path(sys.argv[2]))
