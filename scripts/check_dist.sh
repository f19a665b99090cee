#!/usr/bin/env bash
# Installs what `make dist` made as a stranger would: an empty home, nothing on the path but /usr/bin, no network where the
# kernel lets us take it away. The tarball and the wheel must run the demo and write the bytes that build/popri writes.
#
#   make build dist && scripts/check_dist.sh
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
say() { printf '\n== %s\n' "$*"; }
demo=(demo --rounds 1 --set generate.prompts=10 --set synthetic.texts=50 --set synthetic.public_texts=50
	--set downstream.steps=20 --set downstream.eval_every=20 --set privacy.insecure_seeded_noise=true --quiet)

offline=()
if unshare -n true 2>/dev/null; then offline=(unshare -n); else echo "no right to take the network away: it stays"; fi
bare() { # NAME COMMAND…: with a home of its own, which holds no models, no Go and no settings
	mkdir -p "$work/home-$1"
	env -i PATH=/usr/bin HOME="$work/home-$1" "${offline[@]}" "${@:2}"
}
if bare probe sh -c 'command -v go gcc' > /dev/null; then echo "note: /usr/bin has Go or a compiler on this machine"; fi
if [ ${#offline[@]} -gt 0 ] && bare probe python3 -c 'import socket; socket.create_connection(("1.1.1.1", 53), 2)' 2>/dev/null; then
	echo "the network is still there"; exit 1
fi

say "the program of this checkout"
build/popri "${demo[@]}" --out "$work/built"

compare() { # NAME: the demo's texts and small model equal the built program's
	for file in synthetic.parquet small/model.safetensors; do
		cmp "$work/built/$file" "$work/$1/$file"
	done
	grep -q '<title>' "$work/$1/report.html"
}
tarball=(dist/popri-*-linux-x86_64.tar.gz)
wheel=(dist/popri-*.whl)
[ ${#tarball[@]} = 1 ] && [ ${#wheel[@]} = 1 ] && [ -f "${tarball[0]}" ] && [ -f "${wheel[0]}" ]

say "${tarball[0]}"
begun=$SECONDS
mkdir "$work/some where" "$work/path"
tar -xzf "${tarball[0]}" -C "$work/some where"
ln -s "$work/some where"/popri-*/bin/popri "$work/path/popri"
echo "unpacked after $((SECONDS - begun)) s"
bare tarball "$work/path/popri" version | tee "$work/version"
! grep -q unknown "$work/version"
bare tarball "$work/path/popri" "${demo[@]}" --out "$work/tarball"
echo "report after $((SECONDS - begun)) s"
compare tarball

say "${wheel[0]}"
begun=$SECONDS
python3 -m venv "$work/venv"
bare wheel "$work/venv/bin/python" -m pip install --quiet --no-index --no-deps "$PWD/${wheel[0]}"
echo "installed after $((SECONDS - begun)) s"
bare wheel "$work/venv/bin/popri" "${demo[@]}" --out "$work/wheel"
echo "report after $((SECONDS - begun)) s"
compare wheel
bare wheel "$work/venv/bin/python" -c "import sys, popri; assert popri.Run(sys.argv[1]).path.exists(), popri.program()" "$work/wheel"

say "both write what build/popri writes"
