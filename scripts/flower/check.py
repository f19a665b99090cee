"""Runs a federation of 100 Flower nodes on this machine: popri asks them through two aggregators, Flower carries all
that goes to and from the nodes, and the release must have the bytes of popri's own simulation with the same seed.
Installs flwr once.

    python3 scripts/flower/check.py [NODES]
"""

import json
import os
import pathlib
import random
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import venv

HERE = pathlib.Path(__file__).resolve().parent
POPRI = HERE.parent.parent / "build" / "popri"
FLOWER = "flwr[simulation]==1.41.0"
SETTINGS = {
    "method": "public_selection", "scoring.encoder": "hashing", "privacy.insecure_seeded_noise": "true",
    "aggregate.minutes": "30", "public_selection.texts": "100"
}
WORDS = "rain snow train boat river night north south quiet harbour clear late home morning letter garden".split()


def run(*args, **more):
    return subprocess.run([str(POPRI), *map(str, args)], check=True, **more)


def python():
    """The interpreter of an environment with Flower."""
    folder = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache"), "popri", "flower")
    program = folder / "bin" / "python"
    if not (folder / "complete").exists():
        venv.create(folder, with_pip=True, clear=True)
        subprocess.run([program, "-m", "pip", "install", "-q", FLOWER], check=True)
        (folder / "complete").touch()
    return program


def texts(rng, n):
    return [" ".join(rng.choices(WORDS, k=9)) for _ in range(n)]


def main(nodes):
    with tempfile.TemporaryDirectory(prefix="popri-flower-") as work:
        work, rng = pathlib.Path(work), random.Random(1)
        own = {f"client-{i:04d}": texts(rng, 3) for i in range(nodes)}
        with open(work / "clients.jsonl", "w") as f:
            for name, list_ in own.items():
                f.writelines(json.dumps({"client_id": name, "split": "train", "text": t}) + "\n" for t in list_)
        with open(work / "public.jsonl", "w") as f:
            f.writelines(json.dumps({"text": t}) + "\n" for t in texts(rng, 500))
        run("data", "import", work / "clients.jsonl", "--out", work / "clients.parquet", "--quiet",
            stdout=subprocess.DEVNULL)
        settings = {
            **SETTINGS, "data.public": work / "public.jsonl", "aggregate.least": nodes // 2, "privacy.delta": 1 /
            (10 * nodes)
        }

        def train(out, more):
            sets = [a for k, v in {**settings, **more}.items() for a in ("--set", f"{k}={v}")]
            return ["run", "--preset", "demo", "--allow-embedded", *sets, "--out", work / out]

        run(*train("simulated", {"data.private": work / "clients.parquet"}), stdout=subprocess.DEVNULL)

        ports = []
        for _ in range(2):
            with socket.socket() as s:
                s.bind(("127.0.0.1", 0))
                ports.append(s.getsockname()[1])
        urls = [f"https://127.0.0.1:{p}" for p in ports]
        fed = work / "fed"
        run("aggregate", "ca", "--out", fed, "--clients", nodes, "--leader", urls[0], "--helper", urls[1],
            stdout=subprocess.DEVNULL)
        for i, list_ in enumerate(own.values()):
            home = work / "homes" / str(i)
            (home / "texts").mkdir(parents=True)
            shutil.move(fed / "clients" / f"{i + 1:04d}.key", home / "client.key")
            for k, text in enumerate(list_):
                (home / "texts" / f"{k}.txt").write_text(text)
        budget = f"--epsilon 100 --delta {1 / (10 * nodes)}"
        started = []

        def start(*args):
            started.append(
                subprocess.Popen([str(POPRI), *map(str, args)], stdout=subprocess.DEVNULL,
                                 stderr=open(work / f"{len(started)}.log", "w")))
            return started[-1]

        try:
            for role in ("leader", "helper"):
                start("aggregate", role, "--identity", fed / role, "--enrolled", fed / "enrolled.txt", "--state",
                      work / role, "--insecure-seed", 1, *budget.split())
            trainer = start(*train("federated", {"fed.clients": nodes, "data.private": "none"}), "--clients",
                            ",".join(urls), "--identity", fed / "trainer")
            environment = {
                **os.environ, "POPRI": str(POPRI), "POPRI_FEDERATION": str(fed / "federation.json"),
                "POPRI_HOMES": str(work / "homes"), "POPRI_BUDGET": budget + " --insecure-seeds --at-once",
                "PYTHONPATH": str(HERE), "RAY_DEDUP_LOGS": "0"
            }
            while subprocess.run(
                [str(POPRI), "aggregate", "fetch", "--federation", fed / "federation.json", "--out", work / "waiting"],
                    capture_output=True).returncode:
                if trainer.poll() is not None:
                    sys.exit("flower: the trainer ended: " + (work / "2.log").read_text())
                time.sleep(1)
            began = time.monotonic()
            subprocess.run([
                python(), "-c", "from flwr.simulation import run_simulation; import app; "
                f"run_simulation(app.server, app.client, {nodes}, "
                "backend_config={'client_resources': {'num_cpus': 1}})"
            ], check=True, env=environment)
            seconds = time.monotonic() - began
            if trainer.wait(timeout=600):
                sys.exit("flower: the trainer ended: " + (work / "2.log").read_text())
        finally:
            for p in reversed(started):
                p.terminate()
                p.wait()
        release = pathlib.Path("rounds", "0001", "release.bin")
        got, want = ((work / run_ / release).read_bytes() for run_ in ("federated", "simulated"))
        if got != want:
            sys.exit("flower: the release is not that of the simulation")
        print(json.dumps({"nodes": nodes, "seconds": round(seconds, 1), "release": "the bytes of the simulation"}))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 100)
