"""A federation with two aggregators whose messages Flower carries: the ServerApp fetches what the aggregators
announce, the ClientApps answer near their texts, and the ServerApp sends their sealed reports to the aggregators. It
sees none of what they say.

The program is $POPRI (popri, or popri-client with "answer" for "client"), $POPRI_FEDERATION is federation.json. A
node's folder is its node-config "home", or for simulated nodes $POPRI_HOMES/PARTITION: it holds client.key, the folder
texts, and record, which the client makes. $POPRI_BUDGET is "--epsilon E --delta D"; a node's operator agrees
beforehand (--yes --announced-encoder). The ServerApp waits $POPRI_TIMEOUT seconds for nodes (600): less than the round has.
"""

import os
import pathlib
import re
import subprocess
import tempfile

from flwr.app import ConfigRecord, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import ServerApp

QUESTION = "query.popri"


def popri(*args):
    done = subprocess.run([os.environ.get("POPRI", "popri"), *map(str, args)], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"popri {args[0]} ends with {done.returncode}: {done.stderr.strip()}")


def packed(folder, names="*"):
    return RecordDict({"files": ConfigRecord({p.name: p.read_bytes() for p in pathlib.Path(folder).glob(names)})})


def unpack(message, folder):
    folder.mkdir()
    for name, content in message.content["files"].items():
        if re.fullmatch(r"[\w-]+(\.\w+)?", name):  # no path
            (folder / name).write_bytes(content)
    return folder


server = ServerApp()


@server.main()
def carry(grid, context):
    federation = os.environ["POPRI_FEDERATION"]
    with tempfile.TemporaryDirectory() as work:
        asked = pathlib.Path(work, "asked")
        popri("aggregate", "fetch", "--federation", federation, "--out", asked)
        nodes = list(grid.get_node_ids())
        replies = grid.send_and_receive([Message(packed(asked), dst_node_id=n, message_type=QUESTION) for n in nodes],
                                        timeout=float(os.environ.get("POPRI_TIMEOUT", 600)))
        answers = [unpack(r, pathlib.Path(work, str(r.metadata.src_node_id))) for r in replies if not r.has_error()]
        print(f"{len(answers)} of {len(nodes)} nodes answer")
        try:
            popri("aggregate", "send", "--federation", federation, *answers)
        except RuntimeError as e:  # names the nodes whose reports are not held; the others' count
            print(e)


client = ClientApp()


@client.query("popri")
def answer(message, context):
    homes, config = os.environ.get("POPRI_HOMES"), context.node_config
    home = pathlib.Path(config["home"] if "home" in config else f"{homes}/{config['partition-id']}")
    with tempfile.TemporaryDirectory() as work:
        folder = unpack(message, pathlib.Path(work, "asked"))
        popri("client", "--federation", os.environ["POPRI_FEDERATION"], "--key", home / "client.key", "--texts",
              home / "texts", "--record", home / "record", "--folder", folder, "--yes", "--announced-encoder",
              *os.environ["POPRI_BUDGET"].split())
        return Message(packed(folder, "*.report"), reply_to=message)
