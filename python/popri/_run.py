"""What a run left."""
from __future__ import annotations

import json
import os
import tempfile
import time
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Optional, Set, Tuple, Union

from popri._program import call
from popri._trackers import Tracker, lines, points, tracker

if TYPE_CHECKING:
    import pandas


class Run:
    """A run's folder. What is read is what the folder holds at that moment."""

    def __init__(self, path: Union[str, "os.PathLike[str]"], *, check: bool = True) -> None:
        self.path = Path(path)
        if check and not (self.path / "config.yaml").exists():
            raise FileNotFoundError(f"{self.path} holds no run: it has no config.yaml")

    def __repr__(self) -> str:
        return f"popri.Run({str(self.path)!r})"

    def _file(self, name: str, made_by: str) -> Path:
        path = self.path / name
        if not path.exists():
            raise FileNotFoundError(f"{self.path} has no {name} yet: {made_by} makes it")
        return path

    @property
    def synthetic(self) -> "pandas.DataFrame":
        """The synthetic set, which has the run's guarantee."""
        import pandas
        return pandas.read_parquet(self._file("synthetic.parquet", "popri.run"))

    @property
    def dataset(self) -> Any:
        """The synthetic set as a ``datasets.Dataset``."""
        import datasets
        return datasets.Dataset.from_parquet(str(self._file("synthetic.parquet", "popri.run")))

    def _rounds(self) -> List[Path]:
        return sorted(p.parent for p in self.path.glob("rounds/[0-9]*/metrics.json"))

    @property
    def rounds(self) -> "pandas.DataFrame":
        """The figures of each round."""
        import pandas
        figures = [json.loads((r / "metrics.json").read_text(encoding="utf-8")) for r in self._rounds()]
        return pandas.DataFrame(figures).set_index("round") if figures else pandas.DataFrame()

    @property
    def pairs(self) -> "pandas.DataFrame":
        """The preference pairs of all rounds."""
        import pandas
        parts = [pandas.read_parquet(r / "pairs.parquet").assign(round=int(r.name)) for r in self._rounds()
                 if (r / "pairs.parquet").exists()]
        return pandas.concat(parts, ignore_index=True) if parts else pandas.DataFrame()

    @property
    def ledger(self) -> "pandas.DataFrame":
        """What was released, with which noise, and the running total."""
        import pandas
        return pandas.DataFrame(lines(self._file("ledger.jsonl", "popri.run")))

    @property
    def epsilon(self) -> float:
        """The ε that the ledger says was spent."""
        entries = lines(self._file("ledger.jsonl", "popri.run"))
        if any(e.get("insecure_seeded_noise") for e in entries):
            warnings.warn(f"{self.path}: the noise comes from the seed, so this ε protects nobody", stacklevel=2)
        return max((float(e["epsilon_spent"]) for e in entries if "epsilon_spent" in e), default=0.0)

    @property
    def evaluation(self) -> "pandas.DataFrame":
        """The small models' figures on the test clients, a row each."""
        import pandas
        return pandas.DataFrame(self._results()).set_index("key")

    def _results(self) -> List[Dict[str, Any]]:
        found: List[Dict[str, Any]] = json.loads(
            self._file("eval.json", "popri.evaluate").read_text(encoding="utf-8"))["results"]
        return found

    def small_model(self) -> Tuple[Any, Any]:
        """The small model and its tokenizer, as transformers opens them."""
        import transformers
        folder = self._file("small", "popri.evaluate")
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        name = (config.get("architectures") or [""])[0]
        kind = "AutoModelForSequenceClassification" if name.endswith("ForSequenceClassification") else "AutoModelForCausalLM"
        return (getattr(transformers, kind).from_pretrained(folder), transformers.AutoTokenizer.from_pretrained(folder))

    def adapter(self, round: Optional[int] = None, base: Optional[str] = None) -> Any:
        """The generator with its adapter after a round (the last complete one), as PEFT opens them. ``base`` is the
        generator's folder or name where the adapter does not name one that is there."""
        import peft
        import transformers
        number = round if round is not None else int(self._file("LATEST", "popri.run").read_text().split("/")[-1])
        folder = self._file(f"rounds/{number:04d}/adapter", "popri.run")
        named = json.loads((folder / "adapter_config.json").read_text(encoding="utf-8"))["base_model_name_or_path"]
        model = transformers.AutoModelForCausalLM.from_pretrained(base or named)
        return peft.PeftModel.from_pretrained(model, str(folder))

    def plot(self) -> Any:
        """A matplotlib figure with the report's pictures: small models, distance to the clients, ε."""
        import matplotlib.pyplot as plt
        figure, (small, distance, budget) = plt.subplots(1, 3, figsize=(14, 4))
        results = self._results() if (self.path / "eval.json").exists() else []
        measure = "accuracy" if any(r.get("accuracy") for r in results) else "perplexity"
        for i, r in enumerate(reversed([r for r in results if r.get(measure) is not None])):
            low, high = r.get(measure + "_ci") or (r[measure], r[measure])
            small.errorbar(r[measure], i, xerr=[[r[measure] - low], [high - r[measure]]], fmt="o")
            small.annotate(r["name"], (r[measure], i), textcoords="offset points", xytext=(0, 6), ha="center", fontsize=8)
        small.set(title=f"Test clients' {measure}", yticks=[], xlabel=measure)
        rounds = self.rounds
        for key, label in (("fid", "samples"), ("fid/chosen", "chosen"), ("fid/rejected", "rejected")):
            if key in rounds:
                distance.plot(rounds.index, rounds[key], marker="o", label=label)
        distance.set(title="Distance to the clients' domain", xlabel="round")
        entries = lines(self._file("ledger.jsonl", "popri.run"))
        if "epsilon_spent" in rounds:
            budget.plot(rounds.index, rounds["epsilon_spent"], marker="o", label="spent")
        budget.axhline(entries[0]["epsilon"], linestyle="--", color="gray", label="budget")
        budget.set(title="ε", xlabel="round", ylim=(0, None))
        for axes in (distance, budget):
            if axes.get_legend_handles_labels()[0]:
                axes.legend()
        figure.tight_layout()
        return figure

    def push_to_hub(self, repo_id: str, *, model: bool = False, license: Optional[str] = None,
                    language: Optional[str] = None, private: bool = True, token: Optional[str] = None,
                    unprotected: bool = False) -> str:
        """Uploads the synthetic set, or the small model, with its card: the folder that ``popri data push-ready``
        makes, which audits the run first, and nothing else. Returns the commit's address."""
        from huggingface_hub import HfApi
        with tempfile.TemporaryDirectory() as scratch:
            folder = Path(scratch, repo_id.split("/")[-1])
            words = ["data", "push-ready", str(self.path), "--out", str(folder), "--name", folder.name]
            for flag, value in (("--license", license), ("--language", language)):
                words += [flag, value] if value else []
            words += ["--model"] * model + ["--unprotected"] * unprotected
            call(words, progress=False)
            api, kind = HfApi(token=token), "model" if model else "dataset"
            api.create_repo(repo_id, repo_type=kind, private=private, exist_ok=True)
            done = api.upload_folder(repo_id=repo_id, repo_type=kind, folder_path=str(folder),
                                     commit_message="popri data push-ready")
        return str(done)

    def log_to(self, library: str, *, project: str = "popri", live: bool = False) -> None:
        """Sends the figures to wandb, mlflow or trackio as a run of its own, each once: updates, rounds, small models.
        With ``live`` it continues until the run ends. MLflow needs a server or a database: its plain files cannot hold
        round/fid beside round/fid/chosen."""
        ended: Callable[[], bool] = (lambda: self._ended()) if live else (lambda: True)
        self._log(tracker(library, self.path, project), ended)

    def _ended(self) -> bool:
        events = lines(self.path / "events.jsonl")
        return bool(events) and events[-1].get("event") == "close"

    def _log(self, to: Tracker, ended: Callable[[], bool], every: float = 5) -> None:
        sent: Set[Tuple[str, int]] = set()
        while True:
            last = ended()  # before the files are read: what came in between is not lost
            for kind, step, figures in points(self.path):
                if (kind, step) not in sent:
                    sent.add((kind, step))
                    to.log(kind, step, figures)
            if last:
                break
            time.sleep(0 if ended() else every)
        to.end()
