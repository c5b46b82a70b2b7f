# `make demo` and `make test` need Python 3.11 or newer, Java 17 or newer, and nothing else: the rest is installed
# into .venv, again whenever pyproject.toml or constraints.txt change.

.PHONY: help demo demo-stream demo-changes test test-all fuzz types lint format bench docs package clean java

help:
	@echo 'make demo    join a year of flights to the weather, on Spark'
	@echo 'make demo-stream  join them as they come in, and hold that against the join of both tables'
	@echo 'make demo-changes  keep a query up to date over a shop in PostgreSQL that sells'
	@echo 'make test    run the tests, under Spark Connect and under classic Spark: eight minutes on two cores'
	@echo 'make test-all  run those that take long as well, every case by every algorithm, more random ones; needs Chromium'
	@echo 'make fuzz    hold random joins against their definition: SECONDS=600 SEED=1 ENGINE=spark JOBS=2 CASE=17'
	@echo 'make types   write docs/types.md: which types each library can join by'
	@echo 'make lint    check style, types (by mypy, and what users see by Pyright) and the direction of imports'
	@echo 'make format  bring the code into the style that lint wants'
	@echo 'make bench   run the as-of benchmark, ours beside the peers'
	@echo 'make docs    build the documentation as a site, in site/'
	@echo 'make package build the wheel and the sdist, in dist/, and check them'
	@echo 'make clean   remove the environment, caches and outputs'

demo: java .venv/demo.installed
	@.venv/bin/juncture demo

demo-stream: java .venv/demo.installed
	@.venv/bin/juncture demo stream

demo-changes: .venv/demo.installed
	@.venv/bin/juncture demo changes

# Two processes, each with a Spark of its own: most of a test on Spark is waiting for small tasks.
SPREAD := --numprocesses 2 --dist worksteal

test: java .venv/test.installed
	.venv/bin/pytest $(SPREAD)

# For a nightly run.
test-all: java .venv/test.installed
	.venv/bin/pytest $(SPREAD) --all

# ENGINE=spark takes a case a second. SEED and CASE run one case again.
fuzz: java .venv/test.installed
	PYTHONPATH=tests .venv/bin/python -m fuzz --seconds $(or $(SECONDS),60) --engine $(or $(ENGINE),local) \
		--jobs $(or $(JOBS),2) $(if $(SEED),--seed $(SEED)) $(if $(CASE),--case $(CASE)) $(if $(CASES),--cases $(CASES))

types: java .venv/test.installed
	PYTHONPATH=tests .venv/bin/python -m type_table

lint: .venv/lint.installed
	.venv/bin/ruff check
	.venv/bin/ruff format --check
	.venv/bin/mypy
	.venv/bin/basedpyright
	.venv/bin/lint-imports

format: .venv/lint.installed
	.venv/bin/ruff check --fix
	.venv/bin/ruff format

bench: java .venv/bench.installed
	.venv/bin/python benchmarks/asof.py --scale small

# Its warnings are errors: a link or an anchor that leads nowhere, a page that is in no menu.
docs: .venv/docs.installed
	NO_MKDOCS_2_WARNING=1 .venv/bin/mkdocs build --quiet --strict

package: .venv/package.installed
	.venv/bin/python -m build --outdir dist
	.venv/bin/twine check --strict dist/*

clean:
	rm -rf dist site .venv .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis demo-output

java: | .venv/bin/python
	@.venv/bin/python -I src/juncture/spark/session/java.py

.venv/bin/python:
	@echo 'Making .venv'
	@tools/environment.sh create

# One stamp for each purpose. Tests, lint and benchmarks read the benchmarks' own package too.
BENCHMARKS := --editable ./benchmarks
demo_NEEDS :=
test_NEEDS := $(BENCHMARKS) --group test
lint_NEEDS := $(BENCHMARKS) --group lint
docs_NEEDS := --group docs
package_NEEDS := --group package
bench_NEEDS := --editable './benchmarks[peers]'

.venv/%.installed: pyproject.toml benchmarks/pyproject.toml constraints.txt | .venv/bin/python
	@echo 'Installing what $* needs into .venv'
	@tools/environment.sh install --editable '.[demo]' $($*_NEEDS)
	@touch $@
