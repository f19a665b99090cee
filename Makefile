# make demo: set-up, build, the whole loop. make test: set-up, every test. Both may be interrupted and repeated.
SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help setup build client demo test portable cuda pure lint docs site golden bench prose size fuzz attack faults federation flower race leak engines engines-models engines-jobs \
	trackers clients python dist clean

# Tests run in their packages' folders, so a relative path is made absolute. Empty means testdata/golden.
export POPRI_GOLDEN := $(abspath $(POPRI_GOLDEN))

DEMO      ?=
MODEL     ?=
ENCODER   ?=
PACKAGES  ?= ./...
FUZZTIME  ?=
INPUTS    ?=
CHROMIUM  ?= chromium
TESTFLAGS ?=
TRIALS    ?= 2
CLIENTS   ?= 1000
ROUNDS    ?= 50

# What must build without cgo, on any platform.
PURE = ./cmd/popri-client ./cmd/internal/... ./accountant/... ./configs/... ./datasets/... $(filter-out %/fedsim/local,$(shell go list -f '{{if .GoFiles}}{{.ImportPath}}{{end}}' ./fedsim/...)) \
	./scoring/... ./show/... ./eval/domain ./eval/judge ./eval/metrics \
	./model/chat ./model/convert ./model/embedding ./model/embedding/sentence ./model/embedding/spago ./model/gguf ./model/safetensors \
	./model/shipped ./model/tokenizer ./internal/rundir ./study/grid ./study/jobs

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' Makefile

FAULTS := TestKilledAtAnyMoment|TestPreferKilled|TestNoRoom|TestNoRoomAtEachStage|TestSystemCallsFail

setup: ## libtorch and its bindings, once for all checkouts of a user (seconds when they are there)
	@go run ./internal/setup

build: setup ## build/popri
	@scripts/counted.sh "go build (minutes the first time)" go build -o build/popri ./cmd/popri

client: ## build/popri-client, pure Go: answers a run's question near the clients' data; GOOS and GOARCH choose the platform
	CGO_ENABLED=0 go build -trimpath -ldflags '-s -w' -o build/popri-client ./cmd/popri-client

# The demo of a language model on texts that are far from its public text, short enough for two cores with AVX-512
# BF16, and smaller where it would take long.
SPEECHES := --world speeches --model smollm2 --encoder minilm --rows untrained,popri --set synthetic.mix=fixed \
	--set eval.reference_private=false --minutes 20

demo: build ## the whole loop on speeches with SmolLM2 (fetched, 177 MB), or MODEL=embedded on what comes with popri; DEMO='--epsilon 1' passes flags on
ifeq ($(MODEL)$(ENCODER),)
	@if go run ./internal/setup -model smollm2 && go run ./internal/setup -model minilm; then \
		set -x; build/popri demo $(SPEECHES) $(DEMO); \
	else \
		echo "The models cannot be fetched: the demo runs on what comes with popri. Its public text is near the clients' there, so tuning adds little."; \
		set -x; build/popri demo $(DEMO); \
	fi
else
	@for name in $(filter-out embedded,$(MODEL)) $(ENCODER); do go run ./internal/setup -model "$$name"; done
	build/popri demo $(if $(filter-out embedded,$(MODEL)),--model $(MODEL)) $(if $(ENCODER),--encoder $(ENCODER)) $(DEMO)
endif

test: setup pure ## every test
	go test $(TESTFLAGS) $(PACKAGES)

# What computes with tensors. Go does not see these variables when it keeps results, hence -count=1.
COMPUTING := ./model/tensor ./model/lm ./lora ./trainer ./dpo ./eval/downstream ./model/embedding

portable: setup ## tests of models and training as other machines compute: without kernels of our own, with a GPU's (run by the CPU), and with older CPUs'
	POPRI_KERNELS=off go test -count=1 $(TESTFLAGS) $(COMPUTING)
	POPRI_KERNELS=cuda go test -count=1 $(TESTFLAGS) ./model/tensor ./model/lm ./lora ./trainer ./dpo
	POPRI_KERNELS=avx2 go test -count=1 $(TESTFLAGS) ./model/tensor ./model/lm ./dpo
	POPRI_KERNELS=plain go test -count=1 $(TESTFLAGS) ./model/tensor

cuda: setup ## the same tests on a GPU
	POPRI_DEVICE=cuda go test -count=1 -run '^TestDevice$$' ./model/tensor
	POPRI_DEVICE=cuda go test -count=1 $(TESTFLAGS) $(COMPUTING)

pure: ## the packages that need no libtorch, without cgo
	CGO_ENABLED=0 go build $(PURE)

lint: setup ## gofmt, go vet, staticcheck
	@unformatted=$$(gofmt -l .); if [ -n "$$unformatted" ]; then echo "not formatted by gofmt:"; echo "$$unformatted"; exit 1; fi
	go vet $(PACKAGES)
	go tool staticcheck $(PACKAGES)

docs: setup ## docs/settings.md, docs/commands.md and the tables of docs/figures, written again from comments, help and figures
	go test -count=1 -run '^TestReferencePage' ./methods ./cmd/popri -rewrite-docs

# mkdocs of docs/requirements.txt, in a folder of its own unless Python has it.
site: ## the documentation site at build/site
	@python3 -c 'import material' 2>/dev/null || test -x build/site-env/bin/mkdocs || { python3 -m venv build/site-env && build/site-env/bin/pip install -q -r docs/requirements.txt; }
	@PATH=$$PWD/build/site-env/bin:$$PATH; export PATH NO_MKDOCS_2_WARNING=1; mkdir -p build; \
	python3 -m mkdocs build --strict >build/site.log 2>&1 || { cat build/site.log; exit 1; }; echo build/site/index.html
	@if command -v $(CHROMIUM) >/dev/null; then for page in build/site/index.html build/site/results.html build/site/lab/index.html; do \
		$(CHROMIUM) --headless=new --no-sandbox --disable-gpu --virtual-time-budget=3000 --dump-dom "file://$$PWD/$$page" 2>/dev/null | grep -q '<html[^>]* class="js' || \
		{ echo "$$page: its script does not run in $(CHROMIUM)"; exit 1; }; done; fi

# Everything is shown but the lines that say that a test ran and passed.
golden: setup ## the reference vectors of $POPRI_GOLDEN: what was checked, what is not built yet
	@echo "golden: $${POPRI_GOLDEN:-testdata/golden}"
	@go test -count=1 -v -run '^TestGolden' $(PACKAGES) 2>&1 | awk '\
		/^=== / || /^ *--- PASS/ || /^PASS$$/ || /^testing: warning: no tests to run/ || /\[no test(s to run| files)\]/ { next } \
		/: golden: / { sub(/^ *[a-z_]+_test\.go:[0-9]+: |^ *golden\.go:[0-9]+: /, "") } \
		/^golden: .* cases$$/ { kinds++ } \
		{ print; fflush() } \
		END { printf "golden: %d kinds checked\n", kinds }'

bench: setup ## Go benchmarks
	go test -run '^$$' -bench . -benchmem $(PACKAGES)

prose: ## the length of sentences, paragraphs and tables of the pages, beside their bounds in .ci/prose.txt
	@go run ./internal/size prose

size: ## lines, packages, settings, the longest function and file, pages, beside their bounds in .ci/size.txt
	@go run ./internal/size

fuzz: setup ## each fuzz target for FUZZTIME (1m); INPUTS=1000000 gives this number to all together, most to the fast ones
	@FUZZTIME=$(FUZZTIME) scripts/fuzz.sh $(INPUTS)

attack: setup ## the attacks that docs/attacks.md lists: on what is shared, the ledger, the noise; kills, hostile files
	go test -count=1 -run "^($$(grep -o '\bTest[A-Za-z]*' docs/attacks.md | sort -u | paste -sd '|'))$$" $(PACKAGES)

# What ends a test is printed, and how many trials there were; what merely passed is not.
faults: setup ## kills and failing system calls, TRIALS (2) times as many as in the tests, and full disks; ten minutes at most
	@POPRI_TRIALS=$(TRIALS) go test -count=1 -v -timeout 9m -run '^($(FAULTS))$$' ./run ./run/standalone 2>&1 | awk '\
		/^=== / || /^ *--- PASS/ || /^PASS$$/ { next } \
		sub(/^ *[a-z_]+_test\.go:[0-9]+: /, "") && match($$0, /^faults: [0-9]+ [a-z ]*[a-z]/) { \
			kind = substr($$0, 9, RLENGTH - 8); sub(/^[0-9]+ /, "", kind); counts[kind] += $$2 } \
		{ print; fflush() } \
		END { for (kind in counts) printf "faults: %d %s in all\n", counts[kind], kind }'

federation: ## CLIENTS (1000) over loopback TLS and two aggregators for ROUNDS (50): deaths, false reports and kills; 14 minutes
	POPRI_FEDERATION_CLIENTS=$(CLIENTS) POPRI_FEDERATION_ROUNDS=$(ROUNDS) CGO_ENABLED=0 go test -count=1 -v -timeout 60m \
		-run '^(TestFederation|TestAbortedRoundIsCharged)$$' ./fedsim/aggregate/service

flower: build ## 100 Flower nodes on this machine (flwr is installed once): the release must equal the simulation's
	python3 scripts/flower/check.py

clients: ## build/popri-client-OS-ARCH for linux, darwin and windows on amd64 and arm64 (two minutes the first time)
	for os in linux darwin windows; do for arch in amd64 arm64; do \
		CGO_ENABLED=0 GOOS=$$os GOARCH=$$arch go build -trimpath -ldflags '-s -w' -o build/popri-client-$$os-$$arch ./cmd/popri-client; done; done
	@large=$$(find build -name 'popri-client-*' -size +17000k); if [ -n "$$large" ]; then \
		echo "larger than 17 MB, perhaps because the linker keeps all methods (docs/building.md):"; ls -l $$large; exit 1; fi

race: setup ## every test under the race detector
	go test -race $(TESTFLAGS) $(PACKAGES)

engines: engines-models engines-jobs ## all of TRL, vLLM, Ray and Slurm, and the tests that need them

engines-models: setup ## TRL and vLLM's CPU build, once (14 GB), and the tests that need them
	python3 scripts/engines.py
	go test -count=1 -v -timeout 60m -run '^(TestTrainsInTRL|TestSamplesOnVLLM)$$' ./run

leak: setup ## allocate tensors for a minute: nothing may be left
	POPRI_LEAK=1m go test -count=1 -v -run '^TestManyAllocations' ./model/tensor

engines-jobs: setup ## Ray and Slurm on this machine (Slurm: Debian, as root), and the tests of grids as their jobs
	scripts/engines_jobs.sh

trackers: build ## --report-to with TensorBoard, MLflow and Trackio themselves, which it installs once
	python3 scripts/trackers.py

python: ## tests of the package in python/; tests of a library that is not installed are skipped
	python3 -m unittest discover -s python/tests

dist: setup ## dist/popri-VERSION-linux-x86_64.tar.gz and the wheel, for machines without Go, from glibc 2.28 on
	python3 scripts/dist/dist.py

clean: ## build/ and Go's test cache; what setup made stays
	rm -rf build dist
	go clean -testcache
