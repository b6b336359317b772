# Every target sets up what it needs. `make` or `make help` lists them.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

# PROFILE=release for an optimised build of demo and up.
PROFILE ?= dev
# make simulate SEEDS=2000
SEEDS ?= 200
# make check-model SIZE=small SCENARIO=approvals THREADS=1
SIZE ?= full
SCENARIO ?=
THREADS ?=
# make bench CONCURRENCY='1 64' SECS=5 WARMUP=1 BENCH_ARGS=--stages
CONCURRENCY ?= 1 16 64 256
SECS ?= 12
WARMUP ?= 3
BENCH_ARGS ?=
# make mutants MUTANTS='--file plan.rs --jobs 2'
MUTANTS ?=
# make up REPLICAS=2
REPLICAS ?= 1

TARGET_DIR := $(or $(CARGO_TARGET_DIR),$(CURDIR)/target)
TURNWRIGHT_BIN ?= $(TARGET_DIR)/$(if $(filter dev,$(PROFILE)),debug,$(PROFILE))/turnwright
# In CI a Cargo.lock that does not fit the manifests is an error, elsewhere cargo brings it up to date.
LOCKED := $(if $(CI),--locked,)
# With the tools that infra/setup.sh keeps in the cache.
export PATH := $(shell . infra/env.sh && echo "$$PATH")

.PHONY: help setup demo test up down bench bench-peer simulate check-model mutants audit fmt lint helm-lint build

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## installs everything that the other targets need (Debian, Ubuntu)
	@infra/setup.sh full

demo: ## builds, then runs one agent loop through five services, no Kafka or Redis of yours needed
	@infra/setup.sh demo
	@$(MAKE) build
	@"$(TURNWRIGHT_BIN)" dev --demo

test: ## everything that CI checks: format, lints, dependencies, chart, all tests on real Kafka and Redis
	@infra/setup.sh full
	@$(MAKE) lint helm-lint
	@# The tests start services as processes of their own; cargo test alone need not build the binary they are.
	cargo build --workspace --bins --quiet $(LOCKED)
	TURNWRIGHT_BIN="$(TARGET_DIR)/debug/turnwright" cargo test --workspace $(LOCKED)

up: ## real Kafka, real Redis and the five services as processes of their own (REPLICAS=2 for two of each)
	@infra/setup.sh full
	@$(MAKE) build
	@TURNWRIGHT_BIN="$(TURNWRIGHT_BIN)" infra/local.sh up --replicas $(REPLICAS)

down: ## stops exactly what `make up` started
	@infra/local.sh down

bench: ## latency and throughput of the workload lookup-3 on real Kafka and Redis (CONCURRENCY='1 64' SECS=5 WARMUP=1)
	@infra/setup.sh full
	@cargo build --release -q -p turnwright -p turnwright-tests --bin turnwright --bin bench $(LOCKED)
	@"$(TARGET_DIR)/release/bench" --binary "$(TARGET_DIR)/release/turnwright" \
	  --concurrency $(CONCURRENCY) --secs $(SECS) --warmup $(WARMUP) $(BENCH_ARGS)

bench-peer: ## the same, then Restate on the same workload, and the ratios of both
	@$(MAKE) bench BENCH_ARGS='--peer $(BENCH_ARGS)'

simulate: ## the whole pipeline under seeded crashes, duplicates and reordering (SEEDS=200)
	@infra/setup.sh demo
	@cargo run -q -p turnwright-tests --bin simulate $(LOCKED) -- --seeds $(SEEDS)

check-model: ## every state of small worlds around the core: two calls, two replicas, a crash, a cancel (SIZE=small SCENARIO=approvals)
	@infra/setup.sh demo
	@cargo run -q -p turnwright-tests --bin check-model $(LOCKED) -- --size $(SIZE) \
	  $(if $(SCENARIO),--scenario $(SCENARIO)) $(if $(THREADS),--threads $(THREADS))

mutants: ## plants hundreds of small bugs in the core, one at a time: its tests must catch each (MUTANTS='--file plan.rs')
	@infra/setup.sh mutants
	@# Its builds and its report stay out of the clone; the list of what survived is printed. The core has unit tests only, and
	@# of a random case that fails no smaller one is looked for.
	@CARGO_TARGET_DIR="$(TARGET_DIR)/mutants" PROPTEST_MAX_SHRINK_ITERS=0 cargo mutants \
	  --package turnwright-protocol --cargo-arg=--lib --output "$(TARGET_DIR)" $(MUTANTS)

audit: ## known vulnerabilities in the dependencies (needs the RustSec database, hence the network)
	@infra/setup.sh full
	@report=$$(mktemp) && trap 'rm -f "$$report"' EXIT && \
	  if cargo deny check advisories >"$$report" 2>&1; then cat "$$report"; \
	  elif grep -q 'failed to fetch advisory database' "$$report"; then \
	    cat "$$report" >&2; echo "audit: NOT DONE: the advisory database (github.com/RustSec/advisory-db) cannot be reached from here" >&2; exit 2; \
	  else cat "$$report" >&2; exit 1; fi

fmt: ## formats the code
	@cargo fmt --all

lint: ## format, clippy, and what may be in the dependency graph
	cargo fmt --all --check
	cargo clippy --all-targets --workspace $(LOCKED) -- -D warnings
	cargo deny $(LOCKED) check bans licenses sources

helm-lint: ## lints and renders the chart
	@infra/helm-check.sh

build:
	@cargo build -p turnwright --profile $(PROFILE) $(LOCKED)
