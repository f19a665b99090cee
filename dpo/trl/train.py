"""Trains the adapter of one round with TRL's DPOTrainer: python train.py FOLDER, or with a launcher of accelerate
before it.

popri writes FOLDER: job.yaml (its section dpo_config are DPOConfig's own names), pairs.jsonl (token ids, and the
log-probabilities of the reference) and start/ (the adapter, in PEFT's format). The script prints a line for each
update and leaves adapter/ and, last of all, result.json.
"""
import json
import math
import os
import sys

import peft
import torch
import transformers
import trl
import yaml
from datasets import Dataset
from safetensors.torch import load_file
from tokenizers import Tokenizer, models
from torch.optim.lr_scheduler import LambdaLR
from torch.utils.data import Sampler

folder = sys.argv[1]
with open(f"{folder}/job.yaml") as f:
    job = yaml.safe_load(f)
with open(f"{folder}/pairs.jsonl") as f:
    pairs = Dataset.from_list([json.loads(line) for line in f])


class Order(Sampler):
    """The pairs of each epoch in popri's order."""

    def __init__(self, epochs):
        self.epochs, self.passes = epochs, 0

    def __iter__(self):
        self.passes += 1
        return iter(self.epochs[(self.passes - 1) % len(self.epochs)])

    def __len__(self):
        return len(self.epochs[0])


class Trainer(trl.DPOTrainer):
    """DPOTrainer on token ids, reference log-probabilities, an order and learning rates that are given."""

    def _prepare_dataset(self, dataset, *args, **kwargs):
        return dataset

    def _precompute_ref_logps(self, dataset, *args, **kwargs):
        return dataset

    def _get_train_sampler(self, *args, **kwargs):
        return Order(job["order"])

    def create_scheduler(self, num_training_steps, optimizer=None):
        rates, peak = job["learning_rates"], self.args.learning_rate
        if num_training_steps != len(rates):
            sys.exit(f"popri: TRL plans {num_training_steps} updates, {len(rates)} are wanted")
        self.lr_scheduler = LambdaLR(optimizer or self.optimizer, lambda step: rates[min(step, len(rates) - 1)] / peak)
        return self.lr_scheduler


def figures(log):
    return {name: int(value) if name in ("num_tokens", "step") else float(value) for name, value in log.items()}


class Report(transformers.TrainerCallback):
    def on_log(self, args, state, control, logs=None, **kwargs):
        if "grad_norm" not in logs:
            return
        for name in ("loss", "grad_norm"):
            if not math.isfinite(float(logs[name])):
                sys.exit(f"popri: update {state.global_step}: the {name} is {logs[name]}")
        if state.is_world_process_zero:
            print("popri-step", json.dumps(figures(logs | {"step": state.global_step})), flush=True)


processes = int(os.environ.get("WORLD_SIZE", 1))
if job["batch_pairs"] % processes:
    sys.exit(f"popri: optimizer.batch is {job['batch_pairs']}, which {processes} processes cannot share evenly")
share = job["batch_pairs"] // processes
micro = max(n for n in range(1, min(job["micro_pairs"], share) + 1) if share % n == 0)
# Before the model: a configuration of DeepSpeed decides how weights are loaded.
config = trl.DPOConfig(**job["dpo_config"], output_dir=f"{folder}/trainer", per_device_train_batch_size=micro,
                       gradient_accumulation_steps=share // micro, per_device_eval_batch_size=1)
base = transformers.AutoModelForCausalLM.from_pretrained(job["model"], dtype=getattr(torch, job["dtype"]))
# A new adapter on the base model, filled afterwards. For a PeftModel, TRL would take a copy of the adapter as
# reference.
lora = peft.LoraConfig.from_pretrained(f"{folder}/start")
lora.inference_mode = False
# Tokens are given: of the tokenizer, TRL needs the padding alone, which is masked.
tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=Tokenizer(models.WordLevel({"_": 0}, unk_token="_")),
                                                 pad_token="_", eos_token="_")
trainer = Trainer(model=base, args=config, train_dataset=pairs, eval_dataset=pairs.select(range(job["check_pairs"])),
                  processing_class=tokenizer, peft_config=lora, callbacks=[Report()])
start = load_file(f"{folder}/start/adapter_model.safetensors")
loaded = peft.set_peft_model_state_dict(trainer.model, start)
missing = [name for name in loaded.missing_keys if "lora_" in name]
if missing or loaded.unexpected_keys:
    sys.exit(
        f"popri: the adapter does not fit the model: missing {missing[:3]}, unexpected {loaded.unexpected_keys[:3]}")
trainer.train()
check = trainer.evaluate()
trainer.save_model(f"{folder}/adapter")
if trainer.is_world_process_zero():
    with open(f"{folder}/result.json.partial", "w") as f:
        json.dump({"key": job["key"], "check": check, "processes": processes, "micro_pairs": micro,
                   "steps": [figures(log) for log in trainer.state.log_history if "grad_norm" in log],
                   "versions": {m.__name__: m.__version__ for m in (trl, transformers, peft, torch)}}, f)
        f.flush()
        os.fsync(f.fileno())
    os.replace(f"{folder}/result.json.partial", f"{folder}/result.json")
