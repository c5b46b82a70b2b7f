# `make demo` and `make test` need only Python 3.11 or newer and Java 17 or newer. They install everything else into
# .venv, and again whenever pyproject.toml or constraints.txt changes.

.PHONY: help demo demo-stream demo-changes test test-all test-spark-versions fuzz types lint format bench docs docs-look package clean java

help:
	@echo 'make demo          join a year of flights to the weather, on Spark'
	@echo 'make demo-stream   join both as streams, and compare the result with the join of the tables'
	@echo 'make demo-changes  maintain a query over a shop in a temporary PostgreSQL server'
	@echo 'make test          run the tests on Spark Connect and classic Spark: six minutes on two cores'
	@echo 'make test ROOM=streams  run the tests in tests/streams'
	@echo 'make test-all      run the long tests too, all cases under all algorithms; needs Chromium'
	@echo 'make test-spark-versions  run the tests of joins on Spark under PySpark 3.5, 4.0, 4.1 and the newest'
	@echo 'make fuzz          compare random cases with their definition: KIND=views SECONDS=600 SEED=1 ENGINE=spark CASE=17'
	@echo 'make types         write docs/reference/types.md: the types that each library can join by'
	@echo 'make lint          check style, types (mypy, and Pyright for users) and the direction of imports'
	@echo 'make format        format the code and repair its style'
	@echo 'make bench         run the small as-of benchmark against other libraries'
	@echo 'make docs          build the documentation as a site, in site/'
	@echo 'make docs-look     open every page of the site in Chromium: nothing may be cut off or overlap'
	@echo 'make package       build the wheel and the source distribution in dist/, and check them'
	@echo 'make clean         remove the environment, caches and outputs'

demo: java .venv/demo.installed
	@.venv/bin/python examples/demo

demo-stream: java .venv/demo.installed
	@.venv/bin/python examples/demo stream

demo-changes: .venv/demo.installed
	@.venv/bin/python examples/demo changes

# Two processes, each with its own Spark, because a test on Spark mostly waits for small tasks.
SPREAD := --numprocesses 2 --dist worksteal

test: java .venv/test.installed
	.venv/bin/pytest $(SPREAD) $(if $(ROOM),tests/$(ROOM))

# For a nightly run.
test-all: java .venv/test.installed
	.venv/bin/pytest $(SPREAD) --all

# Each older version has an environment of its own, without packages of the newest. PySpark 3.5 has no Connect server in
# its package.
SPARK_VERSIONS := 3.5 4.0 4.1
VERSION_TESTS := tests/spark/test_versions.py tests/spark/test_placement.py

test-spark-versions: java .venv/test.installed $(SPARK_VERSIONS:%=.venv-spark-%/test.installed)
	.venv/bin/pytest $(VERSION_TESTS)
	set -e; for version in $(SPARK_VERSIONS); do \
		.venv-spark-$$version/bin/python -m pytest -p no:cacheprovider $(VERSION_TESTS) $$(test $$version != 3.5 || echo --spark classic); \
	done

.venv-spark-%/test.installed: pyproject.toml constraints.txt | .venv/bin/python
	@echo 'Installing PySpark $* into .venv-spark-$*'
	@tools/environment.sh spark $*
	@touch $@

# KIND is joins, views, streams, changes or all. ENGINE=spark takes about a second per case. SEED and CASE repeat one case.
fuzz: java .venv/test.installed
	PYTHONPATH=tests .venv/bin/python -m fuzz --kind $(or $(KIND),joins) --seconds $(or $(SECONDS),60) --engine $(or $(ENGINE),local) \
		--jobs $(or $(JOBS),2) $(if $(SEED),--seed $(SEED)) $(if $(CASE),--case $(CASE)) $(if $(CASES),--cases $(CASES))

types: java .venv/test.installed
	PYTHONPATH=tests .venv/bin/python -m type_table

lint: .venv/lint.installed
	.venv/bin/ruff check
	.venv/bin/ruff format --check
	.venv/bin/mypy
	.venv/bin/basedpyright
	.venv/bin/lint-imports
	.venv/bin/python tools/prose.py

format: .venv/lint.installed
	.venv/bin/ruff check --fix
	.venv/bin/ruff format

bench: java .venv/bench.installed
	.venv/bin/python benchmarks/asof.py --scale small

# Warnings are errors: a broken link or anchor, or a page that is not in the menu.
docs: .venv/docs.installed
	NO_MKDOCS_2_WARNING=1 .venv/bin/mkdocs build --quiet --strict

# Opens every page in Chromium, as wide as a desk and as a phone.
docs-look: .venv/docs.installed .venv/test.installed
	NO_MKDOCS_2_WARNING=1 .venv/bin/pytest --all tests/docs/test_look.py

package: .venv/package.installed
	.venv/bin/python -m build --outdir dist
	.venv/bin/twine check --strict dist/*

clean:
	rm -rf dist site .venv .venv-spark-* .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis demo-output

java: | .venv/bin/python
	@.venv/bin/python -I src/juncture/spark/session/java.py

.venv/bin/python:
	@echo 'Making .venv'
	@tools/environment.sh create

# One stamp per purpose. Tests, lint and benchmarks also need the package of the benchmarks.
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
