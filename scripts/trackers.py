#!/usr/bin/env python3
"""Checks --report-to with the programs themselves: TensorBoard's reader, an MLflow server on the loopback, Trackio's
import, and OpenTelemetry's own definitions of the messages that a collector is sent.

    python3 scripts/trackers.py [--popri build/popri] [--venv DIR]

Makes an environment with them (once, in the folder "trackers" of the cache), runs two small demos, and compares what
the programs show with steps.jsonl, evals.jsonl, metrics.json, eval.json and events.jsonl. In the first run all goes
well. The second one is killed in its first round and resumed, and loses the MLflow server at that; a third process
sends what the server lacks. Needs Python 3.11.
"""
import argparse
import contextlib
import http.server
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
import venv
from pathlib import Path

PACKAGES = ["tensorboard==2.21.0", "mlflow==3.17.2", "trackio[tensorboard]==0.43.0", "opentelemetry-proto==1.45.2"]
DEMO = [
    "--rounds", "2", "--set", "generate.prompts=10", "--set", "synthetic.texts=20", "--set", "synthetic.public_texts=0",
    "--set", "downstream.steps=10", "--set", "downstream.eval_every=10", "--set", "optimizer.batch=2", "--set",
    "dpo.eval_share=0.2", "--report-to", "tensorboard,mlflow,otel"
]
EXPERIMENT = "popri check"


def environment(folder):
    python, made = folder / "bin" / "python", folder / "packages.txt"
    if not made.exists() or made.read_text().split() != PACKAGES:
        if not python.exists():
            venv.create(folder, with_pip=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", *PACKAGES], check=True)
        made.write_text("\n".join(PACKAGES))
    return python


def expected(run):
    """What the run's own files say: (key, step) to value."""
    out, last = {}, 0
    for folder in sorted((run / "rounds").iterdir()):
        number, before = int(folder.name), last
        for line in lines(folder / "steps.jsonl"):
            last = line["step"]
            out.update({(k, last): v for k, v in line.items() if k != "step"})
        for line in lines(folder / "evals.jsonl"):
            out.update({(k, before + line["step"]): v for k, v in line.items() if k.startswith("eval_")})
        if (folder / "metrics.json").exists():
            figures = json.loads((folder / "metrics.json").read_text())
            out.update({("round/" + k, number): v for k, v in figures.items() if k != "round"})
            rounds = number
    if (run / "eval.json").exists():
        for r in json.loads((run / "eval.json").read_text())["results"]:
            if r["key"] != "private":
                out.update({(f"downstream/{k}/{r['key']}", rounds): r[k] for k in ("accuracy", "perplexity")})
    return out


def lines(path):
    return [json.loads(x) for x in path.read_text().splitlines()] if path.exists() else []


def tensorboard(run):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    reader = EventAccumulator(str(run / "tensorboard"), size_guidance={"scalars": 0, "tensors": 0})
    reader.Reload()
    tags = reader.Tags()
    texts = {t: reader.Tensors(t)[0].tensor_proto.string_val[0].decode() for t in tags["tensors"]}
    assert "seed:" in texts["config"] and "epsilon" in texts["run"], texts.keys()
    return [(tag, e.step, e.value) for tag in tags["scalars"] for e in reader.Scalars(tag)], texts


def mlflow(run, url):
    from mlflow.tracking import MlflowClient
    client = MlflowClient(url)
    state = json.loads((run / "mlflow.json").read_text())
    found = client.get_run(state["run_id"])
    runs = client.search_runs([found.info.experiment_id], f"tags.`popri.key` = '{state['key']}'")
    assert len(runs) == 1, f"{len(runs)} MLflow runs of one run"
    points = [(key, m.step, m.value) for key in found.data.metrics
              for m in client.get_metric_history(found.info.run_id, key)]
    return points, found


def trackio(run, folder):
    """What Trackio shows after its own import of TensorBoard's files."""
    code = (
        "import sys, trackio; trackio.import_tf_events(sys.argv[1], project='popri', name='well')\n"
        "from trackio.sqlite_storage import SQLiteStorage as S; import json\n"
        "[run] = S.get_runs('popri')\n"
        "print(json.dumps([(k, x['step'], x[k]) for x in S.get_logs('popri', run) for k in x "
        "if k not in ('step', 'timestamp')]))"
    )
    env = dict(os.environ, TRACKIO_DIR=str(folder / "trackio"))
    done = subprocess.run([sys.executable, "-c", code, run / "tensorboard"], env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    shown = subprocess.run([Path(sys.executable).parent / "trackio", "list", "runs", "--project", "popri", "--json"],
                           env=env, capture_output=True, text=True)
    assert shown.returncode == 0 and "well" in shown.stdout, shown.stdout + shown.stderr
    return [tuple(x) for x in json.loads(done.stdout.splitlines()[-1])]


class Collector(http.server.ThreadingHTTPServer):
    """Takes traces as a collector of OpenTelemetry does."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), self.Handler)
        self.requests = []
        threading.Thread(target=self.serve_forever, daemon=True).start()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (ExportTraceServiceRequest,
                                                                                  ExportTraceServiceResponse)
            assert self.path == "/v1/traces" and self.headers["Content-Type"] == "application/x-protobuf", self.path
            self.server.requests.append(
                ExportTraceServiceRequest.FromString(self.rfile.read(int(self.headers["Content-Length"]))))
            answer = ExportTraceServiceResponse().SerializeToString()
            self.send_response(200)
            self.send_header("Content-Type", "application/x-protobuf")
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_):
            pass

    def check(self, run, processes):
        """Compares the trace with the stages of events.jsonl."""
        trace = bytes.fromhex(json.loads((run / "otel.json").read_text())["trace_id"])
        spans = {}
        for request in self.requests:
            for resource in request.resource_spans:
                assert [a.value.string_value for a in resource.resource.attributes
                        if a.key == "service.name"] == ["popri"]
                for scope in resource.scope_spans:
                    for span in scope.spans:
                        if span.trace_id == trace:
                            assert span.span_id not in spans, "a span is there twice"
                            spans[span.span_id] = span
        known = lambda s, key: next((a.value for a in s.attributes if a.key == key), None)
        roots = [s for s in spans.values() if not s.parent_span_id]
        assert len(roots) == processes and all(s.name == "popri" for s in roots), [s.name for s in roots]
        for s in spans.values():
            if s.parent_span_id:
                parent = spans[s.parent_span_id]
                assert parent.start_time_unix_nano <= s.start_time_unix_nano <= s.end_time_unix_nano, s
        events = [(e["stage"], e["round"], e["seconds"]) for e in lines(run / "events.jsonl")
                  if e["event"] == "stage_end"]
        ended = sorted((s.start_time_unix_nano, s) for s in spans.values()
                       if s.name not in ("popri", "round") and not s.status.code)
        got = [(s.name, known(s, "popri.round").int_value if known(s, "popri.round") else 0) for _, s in ended]
        assert got == [e[:2] for e in events][-len(got):] and (processes > 1 or len(got) == len(events)), (got, events)
        off = max(
            abs((s.end_time_unix_nano - s.start_time_unix_nano) / 1e9 - e[2])
            for (_, s), e in zip(ended, events[-len(got):]))
        assert off < 1, f"a span is {off} s longer or shorter than its stage"
        for s in spans.values():
            if s.name == "round":
                figures = json.loads(
                    (run / "rounds" / f"{known(s, 'popri.round').int_value:04}" / "metrics.json").read_text())
                assert known(s, "popri.fid").double_value == figures["fid"], figures
        print(f"  OpenTelemetry: {len(spans)} spans of one trace, {len(ended)} of them stages as in events.jsonl, "
              f"within {off:.3f} s", flush=True)


def compare(name, points, want, single=False):
    got, exact = {}, lambda v: struct.unpack("f", struct.pack("f", v))[0] if single else v
    for key, step, value in points:
        assert (key, step) not in got, f"{name}: {key} at step {step} is there twice"
        got[key, step] = value
    more, fewer = sorted(got.keys() - want.keys()), sorted(want.keys() - got.keys())
    assert not more and not fewer, f"{name}: too many {more[:5]}, too few {fewer[:5]}"
    for k, v in want.items():
        assert got[k] == exact(v), f"{name}: {k} is {got[k]}, want {exact(v)}"
    print(f"  {name}: {len(got)} values of {len({k for k, _ in got})} figures equal those of the run's files"
          + (" (as float32)" if single else ""), flush=True)


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def serve(python, folder, port):
    server = subprocess.Popen([
        python, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port",
        str(port), "--workers", "1", "--backend-store-uri", f"sqlite:///{folder}/mlflow.db"
    ], stdout=open(folder / "server.log", "a"), stderr=subprocess.STDOUT, start_new_session=True,
                              env=dict(os.environ, MLFLOW_SERVER_ENABLE_JOB_EXECUTION="false"))
    try:
        while True:
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5)
                return server
            except OSError:
                if server.poll() is not None:
                    raise SystemExit((folder / "server.log").read_text())
                time.sleep(1)
    except BaseException:
        stop(server)
        raise


def stop(server):
    """Kills the server and the workers that it started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(server.pid, signal.SIGKILL)
    server.wait()


def check(popri, python):
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        port = free_port()
        server, url = serve(python, folder, port), f"http://127.0.0.1:{port}"
        collector = Collector()
        try:
            env = dict(os.environ, OTEL_EXPORTER_OTLP_ENDPOINT=f"http://127.0.0.1:{collector.server_port}",
                       MLFLOW_TRACKING_URI=url, MLFLOW_EXPERIMENT_NAME=EXPERIMENT,
                       MLFLOW_HTTP_REQUEST_TIMEOUT="600")  # the machine may be busy

            def start(run):
                return subprocess.Popen([popri, "demo", "--out", run, *DEMO], env=env, stdout=subprocess.DEVNULL,
                                        stderr=subprocess.PIPE, text=True)

            def well(process):
                said = warnings(process)
                assert not said, said

            def warnings(process):
                text = process.communicate()[1]
                assert process.returncode == 0, text
                return [x for x in text.splitlines() if x.startswith("warning:")]

            run = folder / "well"
            print("a run:", flush=True)
            well(start(run))
            want = expected(run)
            compare("TensorBoard", tensorboard(run)[0], want, single=True)
            compare("Trackio, after its import_tf_events", trackio(run, folder), want, single=True)
            points, found = mlflow(run, url)
            compare("MLflow", points, want)
            assert found.info.status == "FINISHED" and found.data.params["trainer.rounds"] == "2", found.info
            tags = found.data.tags
            print(f"  MLflow: {found.info.status}, {len(found.data.params)} parameters, ε {tags['popri.epsilon']}, "
                  f"δ {tags['popri.delta']}, {tags['popri.guarantee']!r}", flush=True)

            collector.check(run, 1)

            run = folder / "killed"
            print("a run that is killed in round 1, and resumed while the MLflow server dies:", flush=True)
            process = start(run)
            while process.poll() is None and not any("_step" in x.get("event", "")
                                                     for x in lines(run / "events.jsonl")):
                time.sleep(0.05)
            process.kill()
            process.communicate()
            print(f"  killed after {sum('_step' in x['event'] for x in lines(run / 'events.jsonl'))} updates",
                  flush=True)
            stop(server)
            said = warnings(start(run))
            assert len(said) == 1 and "mlflow" in said[0], said
            print(f"  the run ended well and said: {said[0]}", flush=True)
            want = expected(run)
            compare("TensorBoard", tensorboard(run)[0], want, single=True)
            server = serve(python, folder, port)
            before = json.loads((run / "mlflow.json").read_text()).get("run_id")
            well(start(run))
            points, found = mlflow(run, url)
            compare("MLflow, after a third process with the server back", points, want)
            assert found.info.status == "FINISHED" and before in (None, found.info.run_id), found.info
        finally:
            if server.poll() is None:
                stop(server)
    print("trackers: all as expected")


def main():
    flags = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    flags.add_argument("--popri", default="build/popri")
    cache = os.environ.get("POPRI_CACHE") or os.path.join(
        os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "popri")
    flags.add_argument("--venv", type=Path, default=Path(cache) / "trackers")
    a = flags.parse_args()
    folder = a.venv.absolute()
    python = environment(folder)
    if Path(sys.prefix).resolve() != folder.resolve():
        sys.exit(subprocess.run([python, *sys.argv], check=False).returncode)
    check(a.popri, str(python))


if __name__ == "__main__":
    main()
