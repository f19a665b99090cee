#!/usr/bin/env bash
# Runs every fuzz target of the repository and prints how many inputs each of them was given.
#
#   scripts/fuzz.sh              each target for $FUZZTIME (default 1m)
#   scripts/fuzz.sh INPUTS       inputs in all: each target for $FUZZTIME (default 10s), which shows its speed; of the rest,
#                                targets get shares by the square of their speed, so that slow ones do not take all the time
#
# Test binaries are built in build/fuzz, with libtorch last and while the others run. Logs are there, too, inputs
# that reach new code in Go's cache. An input that fails is written to testdata/fuzz beside its target, the others continue, and the exit
# code is 1. Ctrl-C ends the search; the table counts what was done until then.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
inputs=${1:-0}
[[ $inputs =~ ^[0-9]+$ ]] || { echo "fuzz: the number of inputs is \"$inputs\", want digits" >&2; exit 2; }
first=${FUZZTIME:-$([ "$inputs" -gt 0 ] && echo 10s || echo 1m)}
logs=build/fuzz
root=$PWD
mkdir -p "$logs"
rm -f "$logs"/*

# targets lists packages and targets, those last whose instrumented build includes the bindings of libtorch, which takes minutes.
targets() {
	local package target
	grep -rn --include='*_test.go' '^func Fuzz' . | sed -E 's/^\.\/(.*)\/[^/]*:[0-9]+:func (Fuzz[A-Za-z0-9_]*).*/\1 \2/' | sort |
		while read -r package target; do
			echo "$(go list -test -deps "./$package" | grep -cx popri/model/tensor || true) $package $target"
		done | sort -s -n -k 1,1 | cut -d ' ' -f 2-
}

# build makes the binaries in the order of targets. One that cannot be built is an empty file.
build() {
	local package name
	cut -d ' ' -f 1 "$logs/targets" | uniq | while read -r package; do
		name=$logs/${package//\//_}.test
		go test -c -fuzz . -o "$name.new" "./$package" || : > "$name.new"
		mv "$name.new" "$name"
	done
}

# given LOG… adds up the inputs of runs of one target: the last count of each.
given() {
	awk 'FNR == 1 { sum += last; last = 0 } match($0, /execs: [0-9]+/) { last = substr($0, RSTART + 7, RLENGTH - 7) }
		END { printf "%.0f\n", sum + last }' "$@"
}

# fuzz PACKAGE TARGET FUZZTIME TURN runs a target. Minimising is bounded, for it may take longer than the search.
fuzz() {
	local name=${1//\//_} log
	log=$root/$logs/$name.$2.$4.log
	until [ -e "$logs/$name.test" ] || ! kill -0 "$builder" 2> /dev/null; do ((stopped)) && return; sleep 1; done
	echo "fuzz: $1 $2, $3"
	(cd "$1" && "$root/$logs/$name.test" -test.run '^$' -test.fuzz "^$2\$" -test.fuzztime "$3" -test.fuzzminimizetime 1x \
		-test.fuzzcachedir "$(go env GOCACHE)/fuzz/popri/$1" < /dev/null > "$log" 2>&1) || {
		((stopped)) || { echo "$1 $2" >> "$logs/failed"; tail -n 20 "$log"; }
	}
}

# table prints what was done, also after Ctrl-C.
table() {
	local all=0 n
	echo
	while read -r package target; do
		n=$(given "$logs/${package//\//_}.$target".*.log 2> /dev/null || echo 0)
		all=$((all + n))
		printf '%14d  %s %s%s\n' "$n" "$package" "$target" "$(grep -qx "$package $target" "$logs/failed" && echo '  FAILED' || true)"
	done < "$logs/targets"
	printf '%14d  inputs of %d targets in %d minutes\n' "$all" "$(wc -l < "$logs/targets")" $((SECONDS / 60))
	[ ! -s "$logs/failed" ]
}

stopped=0
: > "$logs/failed"
targets > "$logs/targets"
build &
builder=$!
trap 'stopped=1' INT TERM
SECONDS=0
while read -r package target; do
	((stopped)) || fuzz "$package" "$target" "$first" 1
done < "$logs/targets"
if ((inputs > 0 && !stopped)); then
	while read -r package target; do
		echo "$package $target $(given "$logs/${package//\//_}.$target.1.log")"
	done < "$logs/targets" | awk -v inputs="$inputs" '
		{ name[NR] = $1 " " $2; sum += $3; weight[NR] = $3 * $3 + 1; weights += weight[NR] }
		END { for (i = 1; i <= NR && sum < inputs; i++) if (n = int((inputs - sum) * weight[i] / weights + 1)) print name[i], n }' > "$logs/rest"
	while read -r package target n; do
		((stopped)) || fuzz "$package" "$target" "${n}x" 2
	done < "$logs/rest"
fi
table
