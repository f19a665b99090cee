"""Fetches files of a model into the hub's cache and prints the snapshot's folder, or the error, in one line: NAME REVISION PATTERN..."""
import sys

try:
    from huggingface_hub import snapshot_download
except ImportError:
    sys.exit(3)

name, revision, *patterns = sys.argv[1:]
try:
    print(snapshot_download(name, revision=revision, allow_patterns=patterns))
except Exception as err:  # whatever the hub, the network or the disk refuses
    print(f"{type(err).__name__}:", " ".join(str(err).split()))
    sys.exit(1)
