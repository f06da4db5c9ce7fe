# Everything that a person or a machine does with this tree. `make` alone lists it.
#
# On a fresh Debian 12 with Rust nothing else has to be there: what is missing is installed (as
# root, with apt).

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

CARGO ?= cargo
TARGET := $(or $(CARGO_TARGET_DIR),target)
# `dev` builds in less time what runs slower: enough to see that everything works.
PROFILE ?= release
REFLOAT := $(TARGET)/$(if $(filter dev,$(PROFILE)),debug,$(PROFILE))/refloat
# With `-p refloat`, cargo builds the dependencies with fewer features than the tests need, and
# would compile them a second time.
BUILT := $(if $(filter dev,$(PROFILE)),--workspace --bin refloat,-p refloat)
# The servers that demo and tests use; see scripts/install-servers.
SERVERS ?= mariadb-10.11 mariadb-11.8 mysql-9.7

.PHONY: help
help: ## List what can be made
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' Makefile

.PHONY: toolchain
toolchain:
	@command -v $(CARGO) >/dev/null || { echo "make: cargo is missing: install Rust from https://rustup.rs first" >&2; exit 1; }
	@command -v cc >/dev/null || { apt-get update -q && apt-get install -y -q --no-install-recommends gcc libc6-dev; }

.PHONY: servers
servers: ## Install the servers and tools that demo and tests need
	scripts/install-servers $(SERVERS) galera tools

.PHONY: build
build: toolchain ## Build the program, optimised
	$(CARGO) build --profile $(PROFILE) --locked $(BUILT)

.PHONY: demo
demo: build ## See a dump loaded by the stock client and by refloat; DEMO_ROWS=50000 for a short one
	scripts/install-servers mariadb-10.11 tools
	REFLOAT=$(abspath $(REFLOAT)) scripts/demo

.PHONY: test
test: toolchain servers ## Run every test but the slow ones, on real servers
	$(CARGO) test --locked --workspace --no-run
	CARGO="$(CARGO)" TARGET="$(TARGET)" scripts/test
	$(CARGO) test --locked --workspace --doc

.PHONY: test-slow
test-slow: toolchain servers ## Run the slow tests too: big volumes, long faults (hours)
	$(CARGO) build --release --locked -p refloat
	$(CARGO) test --locked --workspace --no-run
	CARGO="$(CARGO)" TARGET="$(TARGET)" REFLOAT=$(abspath $(TARGET))/release/refloat scripts/test --slow
	$(CARGO) test --locked --workspace --doc

.PHONY: test-random
test-random: toolchain servers ## Compare 51,000 dumps put together at random with the stock client (an hour)
	REFLOAT_COMBINATIONS=17000 $(CARGO) test --locked -p refloat-tests --test=against-the-client

.PHONY: test-freeze
test-freeze: toolchain servers ## Run what needs a provider that no package brings: PROVIDER=FILE (docs/design/cluster.md)
	@test -f "$(PROVIDER)" || { echo "make: PROVIDER=FILE names a libgalera_smm.so that has gcache.freeze_purge_at_seqno" >&2; exit 2; }
	REFLOAT_FREEZING_PROVIDER=$(abspath $(PROVIDER)) $(CARGO) test --locked --workspace --test=maintain -- --include-ignored a_provider_that_can_freeze

.PHONY: test-bucket
test-bucket: toolchain ## Ask a bucket of yours what is asked of every storage: BUCKET=s3://bucket/prefix, and AWS_* or the like set
	@test -n "$(BUCKET)" || { echo "make: BUCKET=URL names a bucket with a prefix under which nothing is" >&2; exit 2; }
	REFLOAT_TEST_BUCKET=$(BUCKET) $(CARGO) test --locked -p refloat-store --test=storage -- --include-ignored a_bucket_of_yours

.PHONY: bench
bench: build servers ## Measure the scanner, and loads beside what people use today (takes a while)
	@for script in bench/*/run; do \
	    [ -x "$$script" ] || continue; \
	    echo "== $$script" >&2; REFLOAT=$(abspath $(REFLOAT)) "$$script"; \
	done

.PHONY: lint
lint: toolchain ## Check formatting, lints, docs, licences and the tree
	$(CARGO) fmt --all --check
	$(CARGO) clippy --locked --workspace --all-targets -- -D warnings
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --locked --workspace --no-deps --quiet
	.ci/check-licences
	.ci/check-tree

.PHONY: man
man: build ## Write the manual pages to target/man and the completions to target/completions
	$(REFLOAT) man $(TARGET)/man
	@mkdir -p $(TARGET)/completions
	$(REFLOAT) completions bash > $(TARGET)/completions/refloat.bash
	$(REFLOAT) completions zsh > $(TARGET)/completions/_refloat
	$(REFLOAT) completions fish > $(TARGET)/completions/refloat.fish
	@echo "read one with: man -l $(TARGET)/man/refloat-load.1"

.PHONY: deb
deb: man ## Build a Debian package into target/deb
	REFLOAT=$(abspath $(REFLOAT)) TARGET=$(TARGET) scripts/deb
