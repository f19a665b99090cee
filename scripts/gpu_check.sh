#!/usr/bin/env bash
# Everything that needs a GPU, by one command: popri built with CUDA, the tests of models and training on the device (make cuda),
# and a table of speeds beside transformers, TRL and vLLM on the same device. Ends with the table's path.
#
#   scripts/gpu_check.sh [WORK]       default folder: build/gpu; what is there is used again
#   scripts/gpu_check.sh --round llama-3-8b [WORK]    only a round of that shape (popri bench round), whole and with a profile,
#                                     and its parts by vLLM and TRL where WORK has them
#
#   POPRI=FILE                        a program that was built with CUDA elsewhere, for a machine without a network:
#                                     it finds libtorch by LD_LIBRARY_PATH
#   PYTHON=python3.11 TORCH=2.11.0    the interpreter and the libtorch that popri is built with; 2.11.0 has CUDA 13 and
#                                     needs a driver from 580 on, 2.1.2 has CUDA 12.1
#   PEERS=2.8.0                       the torch of the peers
#   VLLM=no                           without vLLM
#   ROUNDS=3                          turns of popri and its peer
#   DEVICE=cpu                        a rehearsal on a machine without a GPU, with build/popri as it is and models of one layer
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
shape=
[ "${1:-}" != --round ] || { shape=$2; shift 2; }
work=${1:-build/gpu}
popri=${POPRI:-build/popri}
device=${DEVICE:-cuda}
mkdir -p "$work"
work=$(cd "$work" && pwd)
say() { printf '\n== %s\n' "$*"; }

if [ "$device" = cuda ]; then
	command -v nvidia-smi >/dev/null || { echo "gpu_check: nvidia-smi is missing: is there a GPU, and its driver?" >&2; exit 1; }
	say "device"
	nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv
fi

venv() { # FOLDER PACKAGE…: a virtual environment with these packages
	local dir=$1
	shift
	[ -x "$dir/bin/python" ] || "${PYTHON:-python3.11}" -m venv "$dir"
	"$dir/bin/pip" install --quiet "$@"
}

if [ "$device" = cuda ] && [ -z "${POPRI:-}" ]; then
	say "popri with CUDA"
	venv "$work/torch" "torch==${TORCH:-2.11.0}" "numpy<2"
	LIBTORCH=$("$work/torch/bin/python" -c 'import os, torch; print(os.path.dirname(torch.__file__))')
	export LIBTORCH
	make build
	build/popri doctor
	[ -n "$shape" ] || { say "tests on the device"; make cuda; }
fi

if [ -n "$shape" ]; then
	size=()
	[ "$device" = cuda ] || { size=(--layers 1 --k 2 --clients 1000); peer_k=2; }
	say "a round of $shape"
	"$popri" bench round --device "$device" --shape "$shape" "${size[@]}" | tee "$work/round-$shape.txt"
	say "its profile"
	CUDA_LAUNCH_BLOCKING=1 "$popri" bench round --device "$device" --shape "$shape" --k 64 "${size[@]}" --profile --json \
		> "$work/round-$shape.json"
	for python in "$work/peers/bin/python" "$work/vllm/bin/python"; do
		[ -x "$python" ] || continue
		"$python" scripts/peers.py work --arch "$shape" --k "${peer_k:-256}" --out "$work/shapes/$shape"
		break
	done
	if [ -x "$work/vllm/bin/python" ] && [ "${VLLM:-yes}" != no ]; then
		say "vLLM draws the same (made-up weights)"
		"$work/vllm/bin/python" scripts/peers.py generate --model "$work/shapes/$shape" --k "${peer_k:-256}" --dtype bfloat16 --peer vllm \
			--seqs 2560 --batched-tokens 32768 --batch 32 --device "$device" | grep '^{"stage' | tee -a "$work/round-$shape.txt" ||
			echo "vLLM failed; its row is missing." | tee -a "$work/round-$shape.txt"
	fi
	if [ -x "$work/peers/bin/python" ]; then
		say "TRL learns the same"
		"$work/peers/bin/python" scripts/peers.py dpo --model "$work/shapes/$shape" --k "${peer_k:-48}" --batch 2 --dtype bfloat16 \
			--device "$device" | grep '^{"stage' | tee -a "$work/round-$shape.txt" ||
			echo "TRL failed; its row is missing." | tee -a "$work/round-$shape.txt"
	fi
	say "the table is $work/round-$shape.txt, the profile $work/round-$shape.json"
	exit
fi

say "peers"
venv "$work/peers" "torch==${PEERS:-2.8.0}" transformers trl peft accelerate datasets
table=$work/speed.md
# Passes that fill the GPU, of the peers, too.
write=(--stage generate --k 256 --peer-k 128 --peer-batch 128)
prefer=(--stage dpo --k 240 --peer-batch 24)
steps=50
if [ "$device" = cpu ]; then
	write=(--stage generate --k 2) prefer=(--stage dpo --k 2) steps=1
	for arch in gpt2 llama distilgpt2; do
		[ -d "$work/shapes/$arch" ] ||
			"$work/peers/bin/python" scripts/peers.py work --arch "$arch" --layers 1 --k 2 --out "$work/shapes/$arch"
	done
fi
bench() { # FLAG…: rows of the table
	python3 scripts/bench_table.py --device "$device" --rounds "${ROUNDS:-3}" --python "$work/peers/bin/python" \
		--popri "$popri" --work "$work/shapes" "$@" | tee -a "$table"
}
{
	echo "# Speeds on $([ "$device" = cuda ] && nvidia-smi --query-gpu=name --format=csv,noheader || echo the CPU)"
	echo
} > "$table"
say "speeds"
bench "${write[@]}" --arch gpt2,llama
bench "${prefer[@]}" --arch gpt2,llama
bench --arch distilgpt2 --stage finetune --steps "$steps"
if [ "${VLLM:-yes}" != no ]; then
	say "beside vLLM"
	if venv "$work/vllm" vllm; then
		bench "${write[@]}" --arch gpt2,llama --dtype bfloat16 --peer vllm --tune --python "$work/vllm/bin/python"
	else
		echo "vLLM could not be installed; its rows are missing." | tee -a "$table"
	fi
fi
say "the table is $table"
