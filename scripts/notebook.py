#!/usr/bin/env python3
"""Runs examples/popri.ipynb from import to plot, with build/popri and the package of python/, in an empty folder.

    make build && python3 scripts/notebook.py    # needs what popri[plot] needs, nbclient and ipykernel
"""
import os
import sys
import tempfile
from pathlib import Path

import nbclient
import nbformat

ROOT = Path(__file__).resolve().parents[1]


def main():
    os.environ["POPRI_PROGRAM"] = str(ROOT / "build/popri")
    os.environ["PYTHONPATH"] = str(ROOT / "python")
    notebook = nbformat.read(ROOT / "examples/popri.ipynb", as_version=4)
    with tempfile.TemporaryDirectory() as folder:
        nbclient.NotebookClient(notebook, timeout=1800, resources={"metadata": {"path": folder}}).execute()
        report = list(Path(folder).glob("runs/*/report.html"))
    cells = [c for c in notebook.cells if c.cell_type == "code"]
    shown = [o for c in cells for o in c.outputs if o.output_type in ("display_data", "execute_result")]
    pictures = [o for o in shown if "image/png" in o.data]
    tables = [o for o in shown if "text/html" in o.data]
    said = "".join(o.get("text", "") for c in cells for o in c.outputs if o.output_type == "stream")
    if not (pictures and len(tables) >= 2 and report and "generate" in said):
        sys.exit(f"notebook: {len(pictures)} pictures, {len(tables)} tables, {len(report)} reports; progress: {said!r}")
    print(f"notebook: {len(cells)} cells, {len(pictures)} picture, {len(tables)} tables")


if __name__ == "__main__":
    main()
