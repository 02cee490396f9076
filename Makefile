# What this project can do, from a fresh clone with Python 3.11, venv and make.
.DEFAULT_GOAL := help
PYTHON ?= python3
# Modules are compiled when they are first imported, and kept: half of what is installed never is.
export PYTHONDONTWRITEBYTECODE =
VENV := .venv
BIN := $(VENV)/bin
RUNTIME := $(VENV)/.runtime
STAMP := $(VENV)/.installed
FREEZE := build/lock/bin/python -m pip list --format=freeze --exclude nightscreen --exclude pip
BUILDS = $$($(PYTHON) -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["build-system"]["requires"])')
# The digests are those of every file of a version, whatever the platform and the Python.
HASHED := build/lock/bin/uv pip compile --quiet --no-config --no-deps --generate-hashes --no-header --no-annotate --python build/lock/bin/python
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
SITE := NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict
PYTEST := $(BIN)/python -m pytest -q -n logical --maxprocesses=4 --dist loadfile --no-loadscope-reorder --durations=20
CODE := nightscreen tests benchmarks setup.py

.PHONY: help setup demo test test-all test-landing check types lint docs bench package lock audit clean

help: ## list these targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 13

setup: $(STAMP) ## make the virtual environment, with all that checks and tests need

$(RUNTIME): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit("Python 3.11 or later is needed") if sys.version_info < (3, 11) else None'
	$(PYTHON) -m venv $(VENV)
	$(PIP) --no-deps --no-compile --require-hashes -r requirements.lock
	$(PIP) --no-deps --no-build-isolation -e .
	@touch $@

$(STAMP): $(RUNTIME) requirements-dev.lock
	$(PIP) --no-deps --no-compile --require-hashes -r requirements-dev.lock
	@touch $@

demo: $(RUNTIME) ## screen 10,000 made-up customers twice against the embedded simulator
	$(BIN)/nightscreen demo

test: $(STAMP) ## run what every change needs, in a process more than there are cores, four at most
	$(PYTEST) -m 'not long'

test-all: $(STAMP) ## run all tests, also the long ones, then the quick half under each shifted clock
	$(PYTEST)
	$(BIN)/python -m tests.clocks all

DATED := $(patsubst %,tests/%.py,results/test_reviews planning/test_eligibility inbox/test_inbox \
  personal/test_contests results/test_notices personal/test_purging \
  personal/test_applicants_purged results/test_changes)

test-landing: $(STAMP) ## run test, a sample of what test-all adds, and what hangs on dates under the day's clock
	$(PYTEST) -m 'not long or sample'
	$(BIN)/python -m tests.clocks today $(DATED)

check: types lint ## format, lint, types, import rules

types: $(STAMP)
	$(BIN)/mypy

lint: $(STAMP)
	$(BIN)/ruff format --check $(CODE)
	$(BIN)/ruff check $(CODE)
	$(BIN)/lint-imports

docs: $(STAMP) ## write the generated pages anew and build the site into build/site
	$(BIN)/python -m tests.docs.write
	$(SITE)
	@echo "Open build/site/index.html; to search it too: $(BIN)/python -m http.server --bind 127.0.0.1 -d build/site"

bench: $(STAMP) ## run the benchmarks in their short form
	$(BIN)/python -m benchmarks

package: $(STAMP) ## build wheel and sdist, and run the demo from the wheel in an empty folder
	rm -rf build/dist build/package build/lib
	$(BIN)/python -c 'from setuptools.build_meta import *; build_sdist("build/dist"); build_wheel("build/dist")' >/dev/null
	$(PYTHON) -m venv build/package
	build/package/bin/python -m pip install --quiet --disable-pip-version-check --no-deps build/dist/*.whl
	echo "$(CURDIR)/$$(echo $(VENV)/lib/python*/site-packages)" > "$$(echo build/package/lib/python*/site-packages)/dependencies.pth"
	mkdir build/package/empty && cd build/package/empty && ../bin/nightscreen demo --rows 300

lock: ## write requirements.lock (what a run needs) and requirements-dev.lock (all) anew
	rm -rf build/lock && $(PYTHON) -m venv build/lock
	build/lock/bin/python -m pip install --quiet --upgrade $(BUILDS) -e .
	$(FREEZE) > build/lock/run.txt
	build/lock/bin/python -m pip install --quiet --upgrade -c build/lock/run.txt -e '.[dev]'
	$(FREEZE) > build/lock/all.txt
	build/lock/bin/python -m pip install --quiet uv
	{ echo '# Written by make lock: what a run needs, each file by its digest.'; $(HASHED) build/lock/run.txt; } > requirements.lock
	{ echo '# Written by make lock: what checks and tests need too, each file by its digest.'; $(HASHED) build/lock/all.txt; } > requirements-dev.lock

audit: ## look what is known against the locked packages, where the network allows it
	@$(PYTHON) -m venv build/audit
	@build/audit/bin/python -m pip install --quiet --disable-pip-version-check pip-audit \
	  && { build/audit/bin/pip-audit --require-hashes --disable-pip -r requirements.lock; found=$$?; \
	       [ $$found -le 1 ] || echo "not audited: the list of what is known cannot be reached"; exit $$((found == 1)); } \
	  || { [ -x build/audit/bin/pip-audit ] && exit 1 || echo "not audited: pip-audit cannot be installed from here"; }

clean: ## remove what setup and demo made
	rm -rf $(VENV) build .nightscreen-demo out
