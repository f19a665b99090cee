"""Finding and calling the program."""
from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any, List, Sequence


class Error(RuntimeError):
    """What the program said, and its exit code: 2 a mistake in what was asked, 3 the privacy budget, 1 anything else."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


def program() -> str:
    """The path of the program: $POPRI_PROGRAM, else the wheel's own, else the one on the path."""
    named = os.environ.get("POPRI_PROGRAM")
    own = Path(__file__).parent / "_dist" / "bin" / "popri"
    found = named or (str(own) if own.exists() else shutil.which("popri"))
    if not found or not os.access(found, os.X_OK):
        raise Error(f"there is no program popri ({named or own}): install the wheel, or set POPRI_PROGRAM to its path", 2)
    return found


def main() -> None:
    """The command popri of the wheel."""
    try:
        path = program()
    except Error as err:
        sys.exit(f"popri: {err}")
    os.environ.setdefault("POPRI_PYTHON", sys.executable)  # its huggingface_hub fetches models
    os.execv(path, ["popri", *sys.argv[1:]])


def call(arguments: Sequence[str], progress: bool = True) -> Any:
    """Starts the program and returns its result. Progress is printed as it comes; an interrupt is passed on, so that a
    run leaves a checkpoint."""
    command = [program(), *arguments, "--json"] + ([] if progress else ["--quiet"])
    said: List[str] = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, encoding="utf-8") as child:
        def show() -> None:
            assert child.stderr
            for line in child.stderr:
                said.append(line.rstrip())
                if progress and not line.startswith("popri: "):
                    print(said[-1], flush=True)

        shower = threading.Thread(target=show)
        shower.start()
        try:
            assert child.stdout
            result = child.stdout.read()
        except KeyboardInterrupt:
            child.send_signal(signal.SIGINT)
            raise
        finally:
            shower.join()
            code = child.wait()
    if code != 0:
        last = [line for line in said if line.startswith("popri: ")] or said[-1:] or ["popri failed"]
        start = said.index(last[-1]) if said else 0
        message = "\n".join(said[start:]) or last[-1]
        raise Error(message[len("popri: "):] if message.startswith("popri: ") else message, code)
    return json.loads(result)
