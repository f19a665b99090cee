"""Differentially private synthetic text: the program popri, called from Python.

    run = popri.run("popri.yaml", out="runs/first", dpo__beta=0.2)
    popri.evaluate(run)
    run.synthetic, run.epsilon, run.plot()

Nothing is computed here: each call starts the program, and :class:`Run` reads the files that it left.
"""
from popri._program import Error, program
from popri._run import Run
from popri._verbs import ablate, evaluate, run

__all__ = ["Error", "Run", "ablate", "evaluate", "program", "run"]
