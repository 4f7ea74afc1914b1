# Everything here works on a machine that has only python3 (3.11 or newer) and make.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin

.PHONY: help demo tutorial test narrow checked test-wide test-all fuzz check docs audit bench reproduce release clean
help:
	@echo "make demo      set up, then go from files of real flights to a report: plan, reports, tallies, answers"
	@echo "make tutorial  type all the commands of docs/tutorial.md, in a new folder and a new environment"
	@echo "make test      set up, then run all checks and, beside them, the tests for every change (six minutes)"
	@echo "make test-wide the other tests: types of the tests, more parameters, larger simulations, Spark, signals"
	@echo "make test-all  both"
	@echo "make fuzz      100,000 mutated tallies, plans, files and rows: nothing but errors of dither (half an hour at most)"
	@echo "make check     lint, format, floors, types of src and of the pages, doctests, documentation"
	@echo "make docs      build the documentation into site/"
	@echo "make bench     speed against other libraries, as ratios in one run"
	@echo "make reproduce every figure, table and claim of the five papers, in minutes; writes what their pages are made of"
	@echo "make release   build, check the files, install the wheel in a fresh environment, and try it there"
	@echo "make audit     attack every mechanism with ten million reports (half an hour)"

$(VENV)/venv:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "dither needs Python 3.11 or newer; name one with: make PYTHON=python3.12 ..."; exit 1; }
	@$(PYTHON) -m venv $(VENV) || \
	  { echo "python3 cannot make virtual environments; on Debian or Ubuntu install python3-venv"; exit 1; }
	@touch $@

$(VENV)/run: $(VENV)/venv pyproject.toml
	@echo "setting up (a minute or two the first time) ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[demo]'
	@touch $@

$(VENV)/dev: $(VENV)/run pyproject.toml
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[fast,pandas,dev]'
	@touch $@

$(VENV)/bench: $(VENV)/run pyproject.toml
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[fast,bench]'
	@touch $@

# The packages that the client in JavaScript is built and tested with, where node is there; its tests say so if it is not.
NODE_PACKAGES := $(if $(shell command -v npm),clients/js/node_modules/stamp)
clients/js/node_modules/stamp: clients/js/package.json clients/js/package-lock.json
	@cd clients/js && npm ci --silent --ignore-scripts --no-audit --no-fund && touch node_modules/stamp || \
	  echo "npm ci failed: the client in JavaScript is not tested"

demo: $(VENV)/run
	@$(BIN)/dither demo

# Needs nothing of the environment above: the page sets up its own.
tutorial:
	@$(PYTHON) docs/follow.py docs/tutorial.md --expect report.html

# One worker a core, so that threads of linear algebra beside them would only get into each other's way. The second
# variable makes products of matrices round alike wherever their rows lie in memory (docs/dpsgd.md). The last one lets
# Python keep what it compiled: the tests start hundreds of interpreters. A file stays on one worker, which makes its
# plans, its compiled loops and its Spark once.
PYTEST := OMP_NUM_THREADS=1 MKL_CBWR=AUTO,STRICT PYTHONDONTWRITEBYTECODE= $(BIN)/pytest -n auto --dist loadfile -rs

# The checks take one core for two minutes; they run beside the tests, and say nothing but whether they passed.
test: $(VENV)/dev $(NODE_PACKAGES)
	@$(MAKE) --no-print-directory -j2 checked narrow

checked:
	@$(MAKE) --no-print-directory check >$(VENV)/check.log 2>&1 || { cat $(VENV)/check.log; exit 1; }
	@echo "make check: passed"

narrow: $(VENV)/dev $(NODE_PACKAGES)
	@$(PYTEST) -m "not wide" tests

test-wide: $(VENV)/dev $(NODE_PACKAGES)
	$(BIN)/pyright
	$(PYTEST) -m wide tests

test-all: test
	@$(MAKE) --no-print-directory test-wide

# What reads bytes from strangers (tests/fuzz/targets.py); the tests run 2,000 of the same cases.
fuzz: $(VENV)/dev
	OMP_NUM_THREADS=1 $(BIN)/python tests/fuzz/run.py --cases 100000 --seconds 1800

check: $(VENV)/dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports --no-logo
	$(BIN)/pyright src
	$(BIN)/python docs/snippets.py
	$(BIN)/pytest --doctest-modules src
	$(BIN)/mkdocs build --quiet --strict

docs: $(VENV)/dev
	$(BIN)/mkdocs build --strict

audit: $(VENV)/run
	$(BIN)/python benchmarks/audit.py

bench: $(VENV)/bench
	$(BIN)/python benchmarks/run.py

# DATA names a folder with what papers/datasets.py lists; without it, what packages carry.
reproduce: $(VENV)/dev
	$(BIN)/dither reproduce all --quick --keep $(if $(DATA),--data $(DATA))

# Uploads nothing: what is left to be done by hand is told at the end. Nothing of .venv is used, so that what is tried is
# what a stranger gets.
release:
	rm -rf dist .release
	@$(PYTHON) -m venv .release/build && $(PYTHON) -m venv .release/fresh
	@.release/build/bin/python -m pip install --quiet --disable-pip-version-check build twine
	.release/build/bin/python -m build --outdir dist .
	.release/build/bin/python -m twine check --strict dist/*
	@.release/fresh/bin/python -m pip install --quiet --disable-pip-version-check dist/*.whl
	cp tests/smoke.py .release/smoke.py && cd .release && PYTHONPATH= fresh/bin/python smoke.py
	@ls -l dist
	@grep -n "unreleased" CHANGELOG.md && echo "before it is uploaded: put the date there, into CITATION.cff too, and tag it" || true

clean:
	rm -rf $(VENV) .release dist clients/js/node_modules site dither-demo reproduced .pytest_cache .ruff_cache .hypothesis
