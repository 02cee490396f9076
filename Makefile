# What this project can do, from a fresh clone with Python 3.11, venv and make.
.DEFAULT_GOAL := help
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
SITE := NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
CODE := schemas client storage steps tasks flows cli portal sandbox tests benchmarks

.PHONY: help setup demo test check docs bench lock clean

help: ## list these targets
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 10

setup: $(STAMP) ## make the virtual environment from requirements.lock

$(STAMP): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit("Python 3.11 or later is needed") if sys.version_info < (3, 11) else None'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $(STAMP)

demo: $(STAMP) ## screen 10,000 made-up customers twice against the embedded simulator
	$(BIN)/nightscreen demo

test: $(STAMP) ## run the tests, three at a time; what fails beside others is tried once more alone
	$(BIN)/python -m pytest -q -n 3 --dist loadfile --no-loadscope-reorder || \
	$(BIN)/python -m pytest -q --last-failed --last-failed-no-failures none

check: $(STAMP) ## format, lint, types, import rules, links of the docs
	$(BIN)/ruff format --check $(CODE)
	$(BIN)/ruff check $(CODE)
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(SITE)

docs: $(STAMP) ## write the generated pages anew and build the site into build/site
	$(BIN)/python -m tests.docs.write
	$(BIN)/python -m tests.coverage.write
	$(SITE)
	@echo "Open build/site/index.html; to search it too: $(BIN)/python -m http.server --bind 127.0.0.1 -d build/site"

bench: $(STAMP) ## run the benchmarks in their short form
	$(BIN)/python -m benchmarks

lock: ## write requirements.lock anew from pyproject.toml
	rm -rf build/lock && $(PYTHON) -m venv build/lock
	build/lock/bin/python -m pip install --quiet --upgrade -e '.[dev]'
	{ echo '# Written by make lock: every package, pinned.'; build/lock/bin/python -m pip list --format=freeze --exclude nightscreen --exclude pip; } > requirements.lock

clean: ## remove what setup and demo made
	rm -rf $(VENV) build .nightscreen-demo out
