"""The verbs of the program."""
from __future__ import annotations

import json
import os
import tempfile
import threading
from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional, Sequence, Union

from popri._program import call
from popri._run import Run

Config = Union[str, "os.PathLike[str]", Mapping[str, Any], None]

# Arguments that are flags of the program; every other one is a setting.
_FLAGS = {"private", "public", "world", "data", "model", "encoder", "small", "rows", "report_to", "threads", "device",
          "resume", "allow_embedded", "reference_private", "instead", "seeds", "adaptive"}


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple)):
        return "[" + ",".join(map(_text, value)) + "]"
    return str(value)


def _arguments(config: Config, values: Mapping[str, Any], scratch: str) -> List[str]:
    """The command line of a configuration: a file, a preset's name or a dict of sections, with flags and settings."""
    out: List[str] = []
    if isinstance(config, Mapping):
        path = Path(scratch, "config.yaml")
        path.write_text(json.dumps(config), encoding="utf-8")  # JSON is YAML
        out += ["--config", str(path)]
    elif config is not None and (Path(config).suffix in (".yaml", ".yml") or Path(config).is_file()):
        out += ["--config", os.fspath(config)]
    elif config is not None:
        out += ["--preset", os.fspath(config)]
    for name, value in values.items():
        if name not in _FLAGS:
            out += ["--set", f"{name.replace('__', '.')}={_text(value)}"]
        elif value is True:
            out.append("--" + name.replace("_", "-"))
        elif value is not None and value is not False:
            for one in value if isinstance(value, (list, tuple)) else [value]:
                out += ["--" + name.replace("_", "-"), str(one)]
    return out


def run(config: Config = None, *, out: Union[str, "os.PathLike[str]"], progress: bool = True,
        log_to: Optional[str] = None, **settings: Any) -> Run:
    """Runs the rounds and writes the synthetic set. ``config`` is a file, a preset's name or a dict. A setting is
    ``dpo__beta=0.1`` or ``**{"dpo.beta": 0.1}``; private, public, world, model, encoder, small, resume, report_to,
    threads and device are the flags of ``popri run``. ``log_to`` sends the figures while they come; see
    :meth:`Run.log_to`."""
    made = Run(out, check=False)
    ended = threading.Event()
    logger = None
    if log_to is not None:
        from popri._trackers import tracker
        logger = threading.Thread(target=made._log, args=(tracker(log_to, made.path), ended.is_set), daemon=True)
        logger.start()
    try:
        with tempfile.TemporaryDirectory() as scratch:
            call(["run", "--out", os.fspath(out), *_arguments(config, settings, scratch)], progress)
    finally:
        ended.set()
        if logger is not None:
            logger.join()
    return Run(out)


def evaluate(run: Union[Run, str, "os.PathLike[str]"], *, progress: bool = True, **settings: Any) -> Dict[str, Any]:
    """Trains the small model on a run's synthetic set and tests it on the test clients (``popri eval``)."""
    path = run.path if isinstance(run, Run) else run
    with tempfile.TemporaryDirectory() as scratch:
        found: Dict[str, Any] = call(["eval", "--run", os.fspath(path), *_arguments(None, settings, scratch)], progress)
    return found


def ablate(config: Config = None, *, over: Mapping[str, Sequence[Any]], out: Union[str, "os.PathLike[str]"],
           progress: bool = True, **settings: Any) -> Dict[str, Any]:
    """Does a run for every combination of values: ``over={"dpo.rejected_rank": [2, 5]}``, ``seeds=3``."""
    grid: List[str] = []
    for key, values in over.items():
        separator = ";" if any(isinstance(value, (list, tuple)) for value in values) else ","
        grid += ["--over", f"{key}={separator.join(map(_text, values))}"]
    with tempfile.TemporaryDirectory() as scratch:
        found: Dict[str, Any] = call(["ablate", "--out", os.fspath(out), *grid,
                                      *_arguments(config, settings, scratch)], progress)
    return found
