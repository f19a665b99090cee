#!/usr/bin/env bash
# Pictures of pages as people see them, at the widths of a desk and of a telephone, on light and dark screens:
#   scripts/screenshots.sh runs/demo/report.html pictures/
# Needs Chromium (Debian: apt-get install chromium); CHROMIUM names another. A live page never ends loading: save it first.
set -euo pipefail
[ $# -eq 2 ] || { sed -n '2,4s/^# \{0,1\}//p' "$0"; exit 2; }
page=$(realpath "$1"); out=$(mkdir -p "$2" && realpath "$2"); name=$(basename "${page%.*}")
for width in 1280 390; do
  for scheme in 0-dark 1-light; do
    "${CHROMIUM:-chromium}" --headless=new --no-sandbox --disable-gpu --hide-scrollbars --virtual-time-budget=5000 \
      --blink-settings="preferredColorScheme=${scheme%-*}" --window-size="$width,${HEIGHT:-1600}" \
      --screenshot="$out/$name-$width-${scheme#*-}.png" "file://$page" >/dev/null 2>&1
    echo "$out/$name-$width-${scheme#*-}.png"
  done
done
