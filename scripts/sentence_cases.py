#!/usr/bin/env python3
"""Makes testdata/golden/sentence: small random sentence encoders of each kind, and their vectors of texts.

    pip install torch==2.8.0 transformers==5.23.0 sentence-transformers==6.2.0 sentencepiece==0.2.3 regex
    python3 scripts/sentence_cases.py [DESTINATION]

Weights are stored in half precision, and computed with in float32. The texts are random words of a few syllables. The
same seed and libraries give the same bytes.
"""
import json
import random
import shutil
import sys
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from sentence_transformers import SentenceTransformer
from tokenizers import Tokenizer, models, pre_tokenizers, trainers
from transformers import (BertConfig, BertModel, MPNetConfig, MPNetModel, RobertaConfig, RobertaModel, T5Config,
                          T5EncoderModel, XLMRobertaConfig, XLMRobertaModel)

from sentencepiece_model import ROOT, train
from tokenizer_cases import roberta

MODULES = "sentence_transformers.models."


def write(path, value):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, ensure_ascii=False, separators=(",", ":")) + "\n", encoding="utf-8")


def special(ids, *names, left=()):
    return [{
        "id": ids[n], "content": n, "single_word": False, "lstrip": n in left, "rstrip": False, "normalized": False,
        "special": True
    } for n in sorted(names, key=ids.get)]


def template(ids, before, after):
    token = lambda n: {"SpecialToken": {"id": n, "type_id": 0}}
    single = [*map(token, before), {"Sequence": {"id": "A", "type_id": 0}}, *map(token, after)]
    return {"type": "TemplateProcessing", "single": single, "pair": single,
            "special_tokens": {n: {"id": n, "ids": [ids[n]], "tokens": [n]} for n in sorted({*before, *after})}}


def file(added, normalizer, pre, post, decoder, model):
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": added, "normalizer": normalizer,
            "pre_tokenizer": pre, "post_processor": post, "decoder": decoder, "model": model}


def wordpiece(words, first, around, unknown, post=None):
    """BERT's or MPNet's tokenizer: letters, and the words' syllables."""
    letters = "abcdefghijklmnoprstuvwz"
    pieces = list(dict.fromkeys([*first, *letters, *("##" + c for c in letters), ".", "?", *words]))
    ids = {p: i for i, p in enumerate(pieces)}
    return file(
        special(ids, *first, left=("<mask>", )), {
            "type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "strip_accents": None,
            "lowercase": True
        }, {"type": "BertPreTokenizer"}, post or template(ids, around[:1], around[1:]),
        {"type": "WordPiece", "prefix": "##", "cleanup": True}, {
            "type": "WordPiece", "unk_token": unknown, "continuing_subword_prefix": "##",
            "max_input_chars_per_word": 100, "vocab": ids
        })


def unigram(pieces, charsmap, first, before, normalizer, pre):
    space = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True}
    pieces = [[p, round(s, 3)] for p, s in pieces if p not in first and p != "<unk>" and p[0] != "<"]
    pieces = [[p, 0.0] for p in first] + pieces
    ids = {p: i for i, (p, _) in enumerate(pieces)}
    return file(special(ids, *first), normalizer({"type": "Precompiled", "precompiled_charsmap": charsmap}), pre(space),
                template(ids, before, ["</s>"]), space,
                {"type": "Unigram", "unk_id": ids["<unk>"], "vocab": pieces, "byte_fallback": False})


def byte_level(text, size):
    """A byte-level BPE learnt from a text."""
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.train_from_iterator([text],
                             trainers.BpeTrainer(vocab_size=size,
                                                 initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
                                                 show_progress=False))
    return json.loads(made.to_str())


def case(folder, kind, build, config, tokenizer, texts, modules, extra=None, length=24, prompts=None):
    shutil.rmtree(folder, ignore_errors=True)
    torch.manual_seed(len(folder.name))
    config = config(vocab_size=len(tokenizer["model"]["vocab"]) + 2, **extra or {})
    model = build(config).eval()
    for name, p in model.named_parameters():
        if p.dim() == 1:
            p.data += 0.1 * torch.randn_like(p)
        else:
            p.data = torch.randn_like(p) * (1.0 if "embed" in name or "shared" in name or "relative" in name else 0.4)
    model.half().save_pretrained(folder, max_shard_size="1GB")
    for name in ("generation_config.json",):
        (folder / name).unlink(missing_ok=True)
    write(folder / "tokenizer.json", tokenizer)
    write(folder / "tokenizer_config.json",
          {"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": length, **kind})
    width = config.hidden_size
    listed = [{"idx": 0, "name": "0", "path": "", "type": MODULES + "Transformer"}]
    for i, (name, settings) in enumerate(modules, 1):
        place = f"{i}_{name}"
        listed.append({"idx": i, "name": str(i), "path": place, "type": MODULES + name})
        if name == "Pooling":
            write(
                folder / place / "config.json", {
                    "word_embedding_dimension": width, "pooling_mode_cls_token": settings == "cls",
                    "pooling_mode_mean_tokens": settings == "mean", "pooling_mode_max_tokens": False,
                    "pooling_mode_mean_sqrt_len_tokens": False
                })
        if name == "Dense":
            out, bias, act = settings
            write(folder / place / "config.json", {"in_features": width, "out_features": out, "bias": bias,
                                                   "activation_function": "torch.nn.modules." + act})
            tensors = {"linear.weight": 0.4 * torch.randn(out, width)}
            if bias:
                tensors["linear.bias"] = 0.2 * torch.randn(out)
            save_file({n: t.half() for n, t in tensors.items()}, folder / place / "model.safetensors")
            width = out
    write(folder / "modules.json", listed)
    write(folder / "sentence_bert_config.json", {"max_seq_length": length, "do_lower_case": False})
    if prompts:
        write(folder / "config_sentence_transformers.json", prompts)
    encoder = SentenceTransformer(str(folder), device="cpu", model_kwargs={"torch_dtype": torch.float32}).eval()
    for module in encoder:
        module.float()
    vectors = torch.tensor(encoder.encode(texts, batch_size=4, normalize_embeddings=True))
    save_file({"embeddings": vectors}, folder / "embeddings.safetensors")
    prompt = prompts["prompts"][prompts["default_prompt_name"]] if prompts else ""
    ids = [encoder.tokenizer(prompt + t, truncation=True, max_length=length)["input_ids"] for t in texts]
    plain = Tokenizer.from_file(str(folder / "tokenizer.json"))
    plain.no_padding()
    plain.enable_truncation(length)
    if ids != [plain.encode(prompt + t).ids for t in texts]:
        sys.exit(f"sentence_cases: {folder.name}: the reference does not use tokenizer.json as it stands")
    (folder / "texts.jsonl").write_text("".join(
        json.dumps({"kind": "words", "text": t, "ids": i}, separators=(",", ":")) + "\n" for t, i in zip(texts, ids)))
    write(folder / "meta.json",
          {"weights": "here", "max_seq_length": length, "dimension": vectors.shape[1], "texts": len(texts)})
    for path in folder.rglob("*"):
        if path.is_file():
            path.chmod(0o644)
        if path.suffix == ".md":
            path.unlink()


def main():
    out = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "testdata" / "golden" / "sentence"
    torch.set_num_threads(1)
    rng = random.Random(20)
    words = [
        "".join(rng.choice("bdfglmnprstvz") + rng.choice("aeiou") for _ in range(rng.randint(1, 3))) for _ in range(12)
    ]
    texts = [
        "", " ", "q", "1", words[0], *(" ".join(rng.choices(words, k=k)) + rng.choice(".?") for k in (3, 5, 9, 14)),
        "ÉTÉ  ﬁn \n x <pad> y ½ <mask>z", "日本語 ñ  ", " ".join(rng.choices(words, k=20))
    ]
    rules = {"ﬁ": "fi", "½": "1/2", "\n": " ", "É": "é", "T": "t"}
    text = "\n".join(" ".join(rng.choices(words, k=8)) for _ in range(300)) + "\nété fin 1/2 x y z q.?\n" * 3
    pieces, charsmap = train(rules, text, 48, character_coverage=1.0)
    mean, cls, unit = ("Pooling", "mean"), ("Pooling", "cls"), ("Normalize", None)
    runs = lambda p: {
        "type": "Sequence", "normalizers": [p, {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "}]
    }
    split = lambda space: {"type": "Sequence", "pretokenizers": [{"type": "WhitespaceSplit"}, space]}
    spiece = unigram(pieces, charsmap, ["<pad>", "</s>", "<unk>"], [], lambda p: p, split)
    t5 = dict(d_model=8, d_kv=6, d_ff=8, num_layers=2, num_heads=2, relative_attention_num_buckets=8,
              relative_attention_max_distance=16)
    names = {"pad_token": "<pad>", "eos_token": "</s>", "unk_token": "<unk>"}
    case(out / "t5", names, T5EncoderModel, T5Config, spiece, texts,
         [mean, ("Dense", (6, False, "linear.Identity")), unit], t5)
    case(out / "t5-gated", names, T5EncoderModel, T5Config, spiece, texts,
         [mean, ("Dense", (8, True, "activation.Tanh"))], {**t5, "feed_forward_proj": "gated-gelu"})
    bert = dict(hidden_size=8, num_hidden_layers=2, num_attention_heads=2, intermediate_size=8,
                max_position_embeddings=26)
    names = {
        "pad_token": "<pad>", "cls_token": "<s>", "sep_token": "</s>", "unk_token": "[UNK]", "mask_token": "<mask>"
    }
    first = ["<s>", "<pad>", "</s>", "[UNK]", "<mask>"]
    around = {
        "type": "RobertaProcessing", "sep": ["</s>", 2], "cls": ["<s>", 0], "trim_offsets": True,
        "add_prefix_space": False
    }
    case(out / "mpnet", names, MPNetModel, MPNetConfig, wordpiece(words, first, None, "[UNK]", around), texts,
         [mean, unit], bert)
    names = {**names, "unk_token": "<unk>"}
    xlmr = unigram(pieces, charsmap, ["<s>", "<pad>", "</s>", "<unk>"], ["<s>"], runs, lambda space: space)
    case(out / "xlm-roberta", {k: v for k, v in names.items() if k != "mask_token"}, XLMRobertaModel, XLMRobertaConfig,
         xlmr, texts, [mean, unit], {**bert, "num_hidden_layers": 1, "type_vocab_size": 1, "pad_token_id": 1},
         prompts={"prompts": {"query": "ba: ", "passage": ""}, "default_prompt_name": "query"})
    case(out / "roberta", names, RobertaModel, RobertaConfig, roberta(byte_level(text, 290), False), texts,
         [mean, unit],
         {**bert, "num_hidden_layers": 1, "type_vocab_size": 1, "pad_token_id": 1, "layer_norm_eps": 1e-5})
    names = {"pad_token": "[PAD]", "cls_token": "[CLS]", "sep_token": "[SEP]", "unk_token": "[UNK]"}
    case(out / "bert-first", names, BertModel, BertConfig,
         wordpiece(words, ["[PAD]", "[UNK]", "[CLS]", "[SEP]"], ["[CLS]", "[SEP]"], "[UNK]"), texts, [cls, unit],
         {**bert, "num_hidden_layers": 1})


if __name__ == "__main__":
    main()
