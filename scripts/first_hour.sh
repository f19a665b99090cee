#!/usr/bin/env bash
# The first hour of a newcomer: messy files become clients with one command each; one command goes from clients and public text to
# a report, whose guarantee holds; and PEFT loads the adapter where Python has it. Needs build/popri.
#
#   scripts/first_hour.sh [FOLDER]    messy files; default: ../shared/data/messy, or the ones of the tests
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
messy=${1:-../shared/data/messy}
[ -d "$messy" ] || messy=cmd/popri/testdata/messy
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
popri=$PWD/build/popri
say() { printf '\n== %s\n' "$*"; }

import() { # FILE FLAG…: one command makes clients of it, and the check finds nothing wrong
	local file=$1
	shift
	[ -f "$messy/$file" ] || return 0
	say "import $file $*"
	"$popri" data import "$messy/$file" "$@" --skip-blank --out "$work/$file.parquet" --quiet
	"$popri" data check "$work/$file.parquet" --quiet
}
import semicolon.csv --client who --text entry --date when --html --skip-bad 5%
import nested.jsonl --client author.name --text body.text --date created --skip-bad 20%
import dates.jsonl --client user_id --skip-bad 20%
import day-first.tsv --client user --date-format DD/MM/YYYY
import latin1.csv --client user --encoding latin1
import backslash.csv --client user --backslash
import struct-int.parquet --client user.name --text post --date at

say "from a folder of files and lines of public text to a report"
"$popri" data build docs --out "$work/clients.parquet" --test 0.3 --quiet --skip-bad 50%
cat "$(go env GOROOT)"/src/net/http/*.go | sed -n 's#^// \(.\{40,\}\)#\1#p' > "$work/public.txt"
small=(--rounds 1 --set generate.prompts=10 --set synthetic.texts=50 --set synthetic.public_texts=50 --set downstream.steps=20 --quiet)
"$popri" demo --private "$work/clients.parquet" --public "$work/public.txt" --model embedded --encoder latent --epsilon 1 \
	--set privacy.delta=1e-5 --out "$work/run" "${small[@]}"
"$popri" account audit "$work/run" --quiet
grep -q '<title>' "$work/run/report.html"

say "the next steps of the quickstart"
"$popri" demo --epsilon 1 --dry-run --out "$work/dry" --quiet
[ ! -e "$work/dry" ]
"$popri" demo --epsilon 1 --out "$work/eps1" "${small[@]}"
"$popri" compare "$work/run" "$work/eps1" --out "$work/compare.html" --quiet
"$popri" data push-ready "$work/run" --out "$work/hub" --quiet
[ -s "$work/hub/README.md" ]

if python3 -c 'import peft' 2>/dev/null; then
	say "PEFT loads the adapter"
	python3 -c 'import sys; from peft import AutoPeftModelForCausalLM as M; print(M.from_pretrained(sys.argv[1]).peft_config)' \
		"$work/run/rounds/0001/adapter"
fi
say "the small model writes, and becomes a file for llama.cpp"
"$popri" generate --model "$work/run/small" --prompt "the" --max-new-tokens 8 --quiet
"$popri" model export "$work/run/small" --gguf f16 --out "$work/small.gguf" --quiet
if python3 -c 'import transformers' 2>/dev/null; then
	say "transformers loads the small model"
	python3 -c 'import sys; from transformers import AutoModelForCausalLM as M, AutoTokenizer as T
model, tokens = M.from_pretrained(sys.argv[1]), T.from_pretrained(sys.argv[1])
print(tokens.decode(model.generate(**tokens("the", return_tensors="pt"), max_new_tokens=8)[0]))' "$work/run/small"
fi
if python3 -c 'import llama_cpp' 2>/dev/null; then
	say "llama.cpp runs the file"
	python3 -c 'import sys; from llama_cpp import Llama; print(Llama(sys.argv[1], verbose=False)("the", max_tokens=8)["choices"][0]["text"])' \
		"$work/small.gguf"
fi
say "done"
