#!/usr/bin/env bash
# Runs a command that says nothing of itself, and says how long it lasts: every five seconds on a terminal, every thirty in a log.
#
#   scripts/counted.sh NAME COMMAND…
set -uo pipefail
name=$1 every=30
shift
[ -t 2 ] && every=5
"$@" &
command=$!
trap 'kill "$command" 2>/dev/null' INT TERM
(while sleep "$every" < /dev/null > /dev/null 2>&1; do printf '%s: %d s so far\n' "$name" "$SECONDS" >&2; done) &
count=$!
wait "$command"
status=$?
kill "$count" 2>/dev/null
exit "$status"
