#!/usr/bin/env python3
"""Makes testdata/golden/dpo-sync: a preference training whose reference follows the policy (TR-DPO), by TRL.

    pip install torch trl==1.16.0 transformers==5.23.0 peft==0.21.2
    python3 scripts/dpo_sync_cases.py [DESTINATION]

Model, adapter and pairs are those of testdata/golden/dpo/trace-gpt2. DPOTrainer refuses sync_ref_model for adapters.
But it keeps a copy of an adapter that it is given, "ref", as the reference, and SyncRefModelCallback's own function
mixes any two lists of parameters: here those of both adapters. The same seed and libraries give the same figures.
"""
import json
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace

import torch
import transformers
import trl
from datasets import Dataset
from peft import PeftModel
from tokenizers import Tokenizer, models
from torch.utils.data import SequentialSampler
from trl.trainer.callbacks import SyncRefModelCallback

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "testdata/golden/dpo/trace-gpt2"
STEPS, BATCH, RATE, BETA, EVERY, ALPHA = 12, 4, 2e-3, 0.3, 3, 0.6
FIGURES = ["loss", "grad_norm", "rewards/chosen", "rewards/rejected", "logps/chosen", "logps/rejected"]


class Trainer(trl.DPOTrainer):
    """DPOTrainer on token ids, in their order."""

    def _prepare_dataset(self, dataset, *args, **kwargs):
        return dataset

    def _get_train_sampler(self, *args, **kwargs):
        return SequentialSampler(self.train_dataset)


class Sync(transformers.TrainerCallback):
    """SyncRefModelCallback.on_step_end on adapters."""

    def on_step_end(self, args, state, control, model=None, **kwargs):
        if state.global_step % EVERY == 0:
            def of(adapter):
                named = [p for k, p in model.named_parameters() if f".{adapter}." in k]
                return SimpleNamespace(parameters=lambda: named)

            SyncRefModelCallback._sync_target_model(of("default"), of("ref"), ALPHA)


def main():
    out = Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "testdata/golden/dpo-sync")
    pairs = [json.loads(line) for line in (SOURCE / "pairs.jsonl").read_text().splitlines()][:STEPS * BATCH // 2] * 2
    base = transformers.AutoModelForCausalLM.from_pretrained(SOURCE / "model", dtype=torch.float32)
    model = PeftModel.from_pretrained(base, SOURCE / "adapter-init", is_trainable=True)
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer(models.WordLevel({"_": 0}, unk_token="_")), pad_token="_", eos_token="_")
    with tempfile.TemporaryDirectory() as folder:
        config = trl.DPOConfig(output_dir=folder, per_device_train_batch_size=BATCH, num_train_epochs=1,
                               learning_rate=RATE, lr_scheduler_type="constant", warmup_steps=0, beta=BETA,
                               logging_steps=1, report_to=[], use_cpu=True, save_strategy="no", bf16=False,
                               gradient_checkpointing=False, max_length=None, weight_decay=0.0)
        trainer = Trainer(model=model, args=config, train_dataset=Dataset.from_list(pairs), processing_class=tokenizer,
                          callbacks=[Sync()])
        assert "ref" in trainer.model.peft_config
        trainer.train()
    steps = [{k: float(log[k]) for k in FIGURES} for log in trainer.state.log_history if "grad_norm" in log]
    ref = {
        k.replace(".ref.", "."): p.flatten().tolist()[:4] for k, p in trainer.model.named_parameters() if ".ref." in k
    }
    out.mkdir(parents=True, exist_ok=True)
    content = {
        "beta": BETA, "learning_rate": RATE, "batch": BATCH, "ref_model_sync_steps": EVERY,
        "ref_model_mixup_alpha": ALPHA, "max_grad_norm": config.max_grad_norm, "pairs": len(pairs) // 2, "steps": steps,
        "reference": ref
    }
    (out / "trace.json").write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


main()
