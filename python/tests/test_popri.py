"""python3 -m unittest discover -s python/tests. Tests of a library that is not installed are skipped, unless
POPRI_PYTHON_ALL=1 says that all of them must be there."""
import importlib.util
import json
import os
import stat
import sys
import tempfile
import types
import unittest
import warnings
from pathlib import Path
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import popri  # noqa: E402
from popri import _program  # noqa: E402

# Stands for the program: notes its arguments and does what the test wrote into answer.json.
FAKE = """#!{python}
import json, os, pathlib, sys
here = pathlib.Path(__file__).parent
answer = json.loads((here / "answer.json").read_text())
config = sys.argv[sys.argv.index("--config") + 1] if "--config" in sys.argv else ""
(here / "asked.json").write_text(json.dumps([sys.argv[1:], open(config).read() if config else ""]))
for path, text in answer.get("writes", {{}}).items():
    path = pathlib.Path(path.replace("OUT", sys.argv[sys.argv.index("--out") + 1]))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
print(answer.get("says", ""), file=sys.stderr)
print(json.dumps(answer.get("result", {{}})))
sys.exit(answer.get("code", 0))
"""


def needs(*libraries):
    missing = [name for name in libraries if importlib.util.find_spec(name) is None]
    if missing and os.environ.get("POPRI_PYTHON_ALL") == "1":
        raise ImportError(f"not installed: {', '.join(missing)}")
    return unittest.skipIf(missing, f"not installed: {', '.join(missing)}")


class Case(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.dir = Path(scratch.name)
        program = self.dir / "popri"
        program.write_text(FAKE.format(python=sys.executable))
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
        patch = mock.patch.dict(os.environ, {"POPRI_PROGRAM": str(program)})
        patch.start()
        self.addCleanup(patch.stop)
        self.answer()

    def answer(self, **answer):
        (self.dir / "answer.json").write_text(json.dumps(answer))

    def asked(self):
        return json.loads((self.dir / "asked.json").read_text())

    def made_run(self):
        """A run of two rounds with an evaluation and files that may not be given away."""
        run = self.dir / "runs" / "x"
        for number in (1, 2):
            folder = run / "rounds" / f"{number:04d}"
            folder.mkdir(parents=True)
            (folder / "metrics.json").write_text(json.dumps(
                {"round": number, "fid": 1 / number, "fid/chosen": 0.5, "epsilon_spent": 3.5 * number}))
            (folder / "steps.jsonl").write_text("".join(
                json.dumps({"step": 2 * number - 1 + i, "loss": 0.5}) + "\n" for i in (0, 1)) + '{"step": 9, "lo')
        (run / "config.yaml").write_text("seed: 1\n")
        (run / "LATEST").write_text("rounds/0002\n")
        (run / "ledger.jsonl").write_text("".join(json.dumps(e) + "\n" for e in (
            {"type": "budget", "epsilon": 7, "delta": 1e-4, "insecure_seeded_noise": False},
            {"type": "charge", "round": 1, "epsilon_spent": 3.5}, {"type": "charge", "round": 2, "epsilon_spent": 7})))
        (run / "eval.json").write_text(json.dumps({"results": [
            {"key": key, "name": key, "accuracy": 0.3, "accuracy_ci": [0.2, 0.4], "perplexity": 50}
            for key in ("public", "popri", "private")]}))
        (run / "events.jsonl").write_text('{"event": "open"}\n{"event": "close"}\n')
        (run / "for-the-data-owner").mkdir()
        (run / "for-the-data-owner" / "secret.json").write_text("{}")
        return run


class Verbs(Case):
    def test_run(self):
        self.answer(writes={"OUT/config.yaml": ""}, says="round 1  done")
        out = self.dir / "new"
        run = popri.run("demo", out=out, progress=False, dpo__beta=0.2, eval__reference_private=True,
                        downstream__learning_rates=[1e-3, 2e-3], public=["a.txt", "b.txt"], allow_embedded=True, resume=False)
        self.assertEqual(run.path, out)
        self.assertEqual(self.asked()[0], [
            "run", "--out", str(out), "--preset", "demo", "--set", "dpo.beta=0.2", "--set", "eval.reference_private=true",
            "--set", "downstream.learning_rates=[0.001,0.002]", "--public", "a.txt", "--public", "b.txt", "--allow-embedded",
            "--json", "--quiet"])

    def test_configurations(self):
        self.answer(writes={"OUT/config.yaml": ""})
        popri.run({"dpo": {"beta": 0.3}}, out=self.dir / "a", progress=False)
        self.assertEqual(json.loads(self.asked()[1]), {"dpo": {"beta": 0.3}})
        file = self.dir / "mine.yaml"
        file.write_text("seed: 3\n")
        popri.run(file, out=self.dir / "b", progress=False, **{"trainer.rounds": 2})
        self.assertEqual(self.asked()[1], "seed: 3\n")
        self.assertIn("trainer.rounds=2", self.asked()[0])

    def test_evaluate_and_ablate(self):
        self.answer(result={"results": [{"key": "popri", "accuracy": 0.3}]})
        found = popri.evaluate(popri.Run(self.made_run()), small="smollm2", progress=False)
        self.assertEqual(found["results"][0]["accuracy"], 0.3)
        self.assertIn("--small", self.asked()[0])
        popri.ablate(over={"dpo.rejected_rank": [2, 5]}, seeds=2, out="grid", progress=False)
        self.assertEqual(self.asked()[0][:7], ["ablate", "--out", "grid", "--over", "dpo.rejected_rank=2,5", "--seeds", "2"])

    def test_errors(self):
        self.answer(code=2, says="reading\npopri: configuration: dpo.beta is -1\n  must be above 0")
        with self.assertRaisesRegex(popri.Error, "^configuration: dpo.beta is -1\n  must be above 0$") as raised:
            popri.run("demo", out=self.dir / "new", progress=False)
        self.assertEqual(raised.exception.code, 2)
        with mock.patch.dict(os.environ, {"POPRI_PROGRAM": "/nowhere/popri"}):
            with self.assertRaisesRegex(popri.Error, "/nowhere/popri"):
                popri.program()
        with self.assertRaisesRegex(FileNotFoundError, "nowhere"):
            popri.Run(self.dir / "nowhere")

    def test_progress_is_shown(self):
        self.answer(writes={"OUT/config.yaml": ""}, says="round 1  done")
        with mock.patch("builtins.print") as printed:
            popri.run("demo", out=self.dir / "new")
        printed.assert_any_call("round 1  done", flush=True)

    def test_command(self):
        os.environ.pop("POPRI_PYTHON", None)
        with mock.patch("os.execv") as execv, mock.patch.object(sys, "argv", ["popri", "version"]):
            _program.main()
        self.assertEqual(os.environ["POPRI_PYTHON"], sys.executable)
        execv.assert_called_once_with(str(self.dir / "popri"), ["popri", "version"])


class Files(Case):
    def test_epsilon(self):
        run = self.made_run()
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            self.assertEqual(popri.Run(run).epsilon, 7)
        ledger = run / "ledger.jsonl"
        ledger.write_text(ledger.read_text().replace('"insecure_seeded_noise": false', '"insecure_seeded_noise": true'))
        with self.assertWarnsRegex(UserWarning, "protects nobody"):
            popri.Run(run).epsilon

    @needs("pandas", "pyarrow")
    def test_tables(self):
        import pandas
        run = self.made_run()
        with self.assertRaisesRegex(FileNotFoundError, "synthetic.parquet"):
            popri.Run(run).synthetic
        pandas.DataFrame({"text": ["a", "b"]}).to_parquet(run / "synthetic.parquet")
        pandas.DataFrame({"chosen": ["a"], "rejected": ["b"]}).to_parquet(run / "rounds/0002/pairs.parquet")
        read = popri.Run(run)
        self.assertEqual(list(read.synthetic["text"]), ["a", "b"])
        self.assertEqual(list(read.rounds["fid"]), [1, 0.5])
        self.assertEqual(read.pairs.to_dict("records"), [{"chosen": "a", "rejected": "b", "round": 2}])
        self.assertEqual(len(read.ledger), 3)
        self.assertEqual(read.evaluation.loc["popri", "accuracy"], 0.3)

    @needs("matplotlib", "pandas")
    def test_plot(self):
        import matplotlib
        matplotlib.use("Agg")
        small, distance, budget = popri.Run(self.made_run()).plot().axes
        self.assertEqual(len(small.containers), 3)
        self.assertEqual([list(line.get_ydata()) for line in distance.lines], [[1, 0.5], [0.5, 0.5]])
        self.assertEqual(list(budget.lines[0].get_ydata()), [3.5, 7])

    def test_push_to_hub(self):
        uploaded = []

        class Api:
            def __init__(self, token=None):
                self.token = token

            def create_repo(self, repo_id, repo_type, private, exist_ok):
                uploaded.append((repo_id, repo_type, private))

            def upload_folder(self, repo_id, repo_type, folder_path, commit_message):
                uploaded.append(sorted(p.name for p in Path(folder_path).rglob("*")))
                return "address"

        self.answer(writes={"OUT/README.md": "card", "OUT/data.parquet": "texts"})
        with mock.patch.dict(sys.modules, huggingface_hub=types.SimpleNamespace(HfApi=Api)):
            self.assertEqual(popri.Run(self.made_run()).push_to_hub("me/texts", license="cc-by-4.0"), "address")
            self.assertEqual(uploaded, [("me/texts", "dataset", True), ["README.md", "data.parquet"]])
            self.assertEqual(self.asked()[0][:3], ["data", "push-ready", str(self.dir / "runs/x")])
            self.assertNotIn("--unprotected", self.asked()[0])
            self.answer(code=1, says="popri: data push-ready: the ledger was changed")
            with self.assertRaisesRegex(popri.Error, "ledger"):
                popri.Run(self.dir / "runs/x").push_to_hub("me/texts", model=True)
        self.assertEqual(len(uploaded), 2, "a run that the audit refuses was uploaded")

    def test_trackers(self):
        run = self.made_run()
        for library, finish in (("wandb", "finish"), ("trackio", "finish"), ("mlflow", "end_run")):
            module = mock.MagicMock()
            with mock.patch.dict(sys.modules, {library: module}):
                popri.Run(run).log_to(library, live=True)
            getattr(module, finish).assert_called_once_with()
            calls = module.log_metrics.call_args_list if library == "mlflow" else module.log.call_args_list
            figures = [call.args[0] for call in calls]
            self.assertEqual(len(figures), 4 + 2 + 1, library)
            names = {name for f in figures for name in f}
            self.assertLessEqual({"loss", "round/fid", "downstream/accuracy/popri"}, names)
            self.assertFalse([n for n in names if n.endswith("/private")], "the clients' own texts are shown")
        with self.assertRaisesRegex(ValueError, "tensorbored"):
            popri.Run(run).log_to("tensorbored")

    def test_live(self):
        run = self.made_run()
        sent, looks = [], iter([False, False, True, True])
        tracker = types.SimpleNamespace(log=lambda kind, step, figures: sent.append((kind, step)), end=lambda: sent.append("end"))

        def ended():
            look = next(looks)
            (run / "rounds/0003").mkdir(exist_ok=True)
            (run / "rounds/0003/metrics.json").write_text('{"round": 3}')
            return look

        popri.Run(run)._log(tracker, ended, every=0)
        self.assertEqual(len(sent), len(set(sent)), "a figure was sent twice")
        self.assertIn(("round", 3), sent)
        self.assertEqual(sent[-1], "end")


if __name__ == "__main__":
    unittest.main()
