"""A run's figures in W&B, MLflow and Trackio, sent by their own libraries. No text of the run is sent."""
from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any, Dict, Iterator, List, Tuple

Point = Tuple[str, int, Dict[str, float]]  # kind, step, figures


def lines(path: Path) -> List[Dict[str, Any]]:
    """The whole lines of a file of JSON lines; a line that is being written is left for later."""
    if not path.exists():
        return []
    content = path.read_text(encoding="utf-8")
    return [json.loads(line) for line in content[: content.rfind("\n") + 1].splitlines()]


def points(run: Path) -> Iterator[Point]:
    """All figures so far: of each update by its number, of each round and of the small models by the
    round's. The row ε = ∞ is left out, because a server may have more readers than the run's folder."""
    last = number = 0
    for folder in sorted((run / "rounds").glob("[0-9]*")):
        for figures in lines(folder / "steps.jsonl"):
            last = int(figures.pop("step"))
            yield "update", last, figures
        if (folder / "metrics.json").exists():
            number = int(folder.name)
            figures = json.loads((folder / "metrics.json").read_text(encoding="utf-8"))
            yield "round", number, {"round/" + k: v for k, v in figures.items() if k != "round"}
    if (run / "eval.json").exists():
        results = json.loads((run / "eval.json").read_text(encoding="utf-8"))["results"]
        small = {f"downstream/{k}/{r['key']}": r[k] for r in results if r["key"] != "private"
                 for k in ("accuracy", "perplexity", "macro_f1") if r.get(k) is not None}
        yield "evaluation", number, small


class Tracker:
    """One run in a tracker: ``log`` takes a point, ``end`` closes it."""

    def __init__(self, library: str, run: Path, project: str) -> None:
        self.library = library
        try:
            self.module: Any = importlib.import_module(library)
        except ImportError as err:
            raise ImportError(f"log_to({library!r}) needs the library: pip install 'popri[{library}]'") from err
        if library == "mlflow":
            self.module.set_experiment(project)
            self.module.start_run(run_name=run.name)
        else:
            self.run = self.module.init(project=project, name=run.name)
        if library == "wandb":  # its own step cannot go back, and updates and rounds count apart
            for step in ("update", "round", "evaluation"):
                self.module.define_metric(step)
            self.module.define_metric("round/*", step_metric="round")
            self.module.define_metric("downstream/*", step_metric="evaluation")
            self.module.define_metric("*", step_metric="update")

    def log(self, kind: str, step: int, figures: Dict[str, float]) -> None:
        if self.library == "mlflow":
            self.module.log_metrics(figures, step=step)
        elif self.library == "trackio":
            self.module.log(figures, step=step)
        else:
            self.module.log({**figures, kind: step})

    def end(self) -> None:
        getattr(self.module, "end_run" if self.library == "mlflow" else "finish")()


def tracker(library: str, run: Path, project: str = "popri") -> Tracker:
    if library not in ("wandb", "mlflow", "trackio"):
        raise ValueError(f"log_to({library!r}): there are wandb, mlflow and trackio")
    return Tracker(library, run, project)
