#!/usr/bin/env bash
# Installs and runs what `popri ablate --on` submits to, on this machine, and runs the tests that need it: Ray in a Python
# environment of its own, and Slurm from the system's packages (Debian, as root).
#
#   scripts/engines_jobs.sh [install] [test]     both, without arguments
#
# $ENGINES is the folder for all of it (default build/engines). Every process that is started here ends with this one.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
ENGINES=$(realpath -m "${ENGINES:-build/engines}")
RAY_PORT=${RAY_PORT:-8265}
mkdir -p "$ENGINES"
started=()

finish() {
	for pid in "${started[@]}"; do kill "$pid" 2>/dev/null || true; done
	for pid in "${started[@]}"; do wait "$pid" 2>/dev/null || true; done
}
trap finish EXIT

install() {
	if [ ! -x "$ENGINES/ray/bin/ray" ]; then
		python3 -m venv "$ENGINES/ray"
		"$ENGINES/ray/bin/pip" install --quiet 'ray[default]==2.60.0'
	fi
	if ! command -v slurmctld slurmd munged > /dev/null; then
		apt-get install --yes --no-install-recommends slurmctld slurmd slurm-client munge
	fi
}

# start LOG COMMAND… runs a command beside this one.
start() {
	local log=$1
	shift
	"$@" > "$log" 2>&1 &
	started+=($!)
}

# await SECONDS COMMAND… repeats a command until it succeeds.
await() {
	local left=$1
	shift
	until "$@" > /dev/null 2>&1; do
		((left-- > 0)) || { echo "engines: $* does not succeed" >&2; return 1; }
		sleep 1
	done
}

# Two nodes on this machine, each with one processor.
slurm() {
	local at=$ENGINES/slurm host
	host=$(hostname)
	export SLURM_CONF=$at/slurm.conf
	if timeout 10 sinfo > /dev/null 2>&1; then
		return # it runs already
	fi
	mkdir -p "$at"/{state,log,run,spool/n1,spool/n2}
	chmod 700 "$at/run"
	[ -f "$at/munge.key" ] || (umask 077 && head -c 128 /dev/urandom > "$at/munge.key")
	cat > "$SLURM_CONF" <<-END
		ClusterName=popri
		SlurmctldHost=$host(127.0.0.1)
		SlurmctldPort=16817
		SlurmUser=$(id -un)
		SlurmdUser=$(id -un)
		AuthType=auth/munge
		AuthInfo=socket=$at/run/munge.sock
		CredType=cred/munge
		StateSaveLocation=$at/state
		SlurmdSpoolDir=$at/spool/%n
		SlurmctldPidFile=$at/run/slurmctld.pid
		SlurmdPidFile=$at/run/slurmd.%n.pid
		SlurmctldLogFile=$at/log/slurmctld.log
		SlurmdLogFile=$at/log/slurmd.%n.log
		ProctrackType=proctrack/linuxproc
		TaskPlugin=task/none
		SelectType=select/cons_tres
		SelectTypeParameters=CR_Core
		ReturnToService=2
		MpiDefault=none
		MinJobAge=30
		PropagatePrioProcess=1
		SchedulerParameters=sched_interval=2,batch_sched_delay=1
		NodeName=n1 NodeHostname=$host NodeAddr=127.0.0.1 Port=16901 CPUs=1 RealMemory=4096
		NodeName=n2 NodeHostname=$host NodeAddr=127.0.0.1 Port=16902 CPUs=1 RealMemory=4096
		PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
	END
	start "$at/log/munged.out" munged --force --foreground --key-file "$at/munge.key" --socket "$at/run/munge.sock" \
		--pid-file "$at/run/munged.pid" --log-file "$at/log/munged.log" --seed-file "$at/run/seed"
	await 30 test -S "$at/run/munge.sock"
	start "$at/log/slurmctld.out" slurmctld -D
	await 30 sinfo
	for node in n1 n2; do start "$at/log/$node.out" slurmd -D -N "$node"; done
	await 60 sh -c '! sinfo --noheader --format=%T | grep -v -e idle -e alloc -e mix'
}

# ready reports whether Ray takes jobs: its head answers before its agent does.
ready() {
	python3 - "$RAY_API_SERVER_ADDRESS" <<-'END'
		import json, sys, time, urllib.request
		body = json.dumps({"entrypoint": "true", "submission_id": f"ready-{time.time_ns()}"}).encode()
		urllib.request.urlopen(urllib.request.Request(sys.argv[1] + "/api/jobs/", body, {"Content-Type": "application/json"}), timeout=60)
	END
}

ray() {
	export RAY_API_SERVER_ADDRESS=http://127.0.0.1:$RAY_PORT
	if ready 2> /dev/null; then
		return
	fi
	mkdir -p "$ENGINES/ray-log"
	# With fixed ports, and time to start, a busy machine breaks nothing.
	start "$ENGINES/ray-log/ray.out" env RAY_raylet_start_wait_time_s=300 RAY_agent_register_timeout_ms=300000 \
		"$ENGINES/ray/bin/ray" start --head --block --port 6399 --dashboard-host 127.0.0.1 --dashboard-port "$RAY_PORT" \
		--metrics-export-port 28080 --dashboard-agent-listen-port 52365 --dashboard-agent-grpc-port 28266 \
		--runtime-env-agent-port 28267 --num-cpus 2 --object-store-memory 100000000 --disable-usage-stats
	await 300 ready
}

tests() {
	slurm
	ray
	POPRI_TEST_ENGINES=slurm,ray go test -count=1 -timeout 60m -v -run '^TestEngine' ./cmd/popri
}

for step in "${@:-all}"; do
	case $step in
	all) install; tests ;;
	install) install ;;
	test) tests ;;
	*) echo "engines: $step is none of install, test" >&2; exit 2 ;;
	esac
done
