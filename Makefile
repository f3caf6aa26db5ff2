# `make` lists what there is. PG=15 (or 17, 18) says which PostgreSQL, ASSERT=1 one with assertions; T=name picks the tests with that in their name.
PG ?= 15
T ?=
export PG ASSERT DESTDIR PG_CRON_NAME
export QUICK ONLY ROUNDS REPORT RESUME AGAINST MINUTES

.DEFAULT_GOAL := help
.PHONY: help setup demo demo-stop test test-core test-pg test-cluster test-long test-all docs bench check all install deb test-deb extension-folder test-extension-folder sbom clients clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## install what builds and tests need (the others do this by themselves)
	@tools/setup.sh

demo: ## see it work: a throw-away cluster with SQL jobs, schedules and workers; KEEP=1 leaves it running
	@tools/setup.sh packages pgrx server python
	@tools/demo.sh

demo-stop: ## stop and remove a demo that was kept
	@tools/demo.sh stop

test: setup ## run every test
	@tools/test.sh

test-core: ## the core's tests: seconds, no PostgreSQL needed; T=name
	@cargo test -p scheduler-core $(T)

test-pg: setup ## the #[pg_test]s, inside a server; T=name
	@tools/test-pg.sh $(T)

test-cluster: setup ## the tests that start servers of their own; T=name
	@tools/test-cluster.sh $(T)

test-all: ## every test on every server: 15, 16, 17, and 18 with assertions (two hours); SKIP=16 leaves one out
	@tools/test-all.sh

docs: setup ## write docs/reference anew from the catalog (functions, views, settings)
	@SCHEDULER_BLESS=1 tools/test-cluster.sh reference::

test-long: setup ## the tests that take minutes; T=name
	@tools/setup.sh failover recipes
	@cargo test --release -p scheduler-core $(T) -- --ignored
	@tools/test-cluster.sh --ignored $(T)
	@tools/test-statements.sh rest $(T)

bench: ## ours and the peers side by side (70 minutes); QUICK=1 eight minutes, ONLY=leases,queue, RESUME=1, REPORT=1; AGAINST=REVISION: slower than before?, AGAINST=sched.fast_path=off: what that costs
	@tools/bench.sh

check: setup ## format, lints and house rules
	@tools/check.sh

all: ## build the release version for a server of yours: make all PG_CONFIG=/usr/bin/pg_config
	@tools/install.sh "$(PG_CONFIG)" build

install: ## install into your own server: make install PG_CONFIG=/usr/bin/pg_config; DESTDIR=/folder: below it; PG_CRON_NAME=1: with the empty extension pg_cron
	@tools/install.sh "$(PG_CONFIG)"

deb: ## Debian's package: target/deb/postgresql-15-scheduler_VERSION_ARCH.deb
	@tools/setup.sh packages pgrx server
	@tools/deb.sh

test-deb: ## build the package and test it in roots of its own, twice for the same hash (20 minutes); T=lintian or another step
	@tools/setup.sh packaging
	@tools/test-deb.sh $(T)

extension-folder: setup ## target/extension/18: a folder for PostgreSQL 18's extension_control_path; PG=18
	@tools/extension-folder.sh

test-extension-folder: setup ## that folder in a server of its own; PG=18
	@tools/test-extension-folder.sh

sbom: ## target/sbom.cdx.json: what is linked into the library
	@tools/setup.sh audit
	@tools/sbom.sh

clients: setup ## the worker libraries as packages that install from a file: target/clients/
	@tools/clients.sh

clean: ## stop what still runs and remove all that was built
	@tools/clean.sh
