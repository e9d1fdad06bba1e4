# `make demo` and `make test` each set up everything they need. `make help` lists the rest.
SHELL := /bin/bash
.DEFAULT_GOAL := help
VENV := .venv
STAMP := $(VENV)/.handful-installed
RUN := $(VENV)/bin
JOBS ?= 2
export OMP_NUM_THREADS ?= 1

.PHONY: help setup demo test test-fast lint format clean

help: ## what can be made
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

setup: $(STAMP) ## make .venv with everything the tests and the demo need

$(STAMP): pyproject.toml constraints.txt scripts/setup
	bash scripts/setup $(VENV)
	@touch $@

demo: $(STAMP) ## ten simulated demonstrations, training, 20 unseen episodes, a report
	$(RUN)/handful demo --out out/demo

# Tests start many Python processes: each would compile handful anew if compiled files were not kept.
test test-fast: export PYTHONDONTWRITEBYTECODE :=
test: $(STAMP) lint ## lint, format check, type check and every test
	$(RUN)/pytest -n $(JOBS) --dist worksteal

test-fast: $(STAMP) ## unit and property tests that take seconds
	$(RUN)/pytest -n $(JOBS) --dist worksteal -m "not slow" tests/unit tests/property

lint: $(STAMP)
	$(RUN)/ruff check .
	$(RUN)/ruff format --check .
	$(RUN)/mypy

format: $(STAMP) ## rewrite the code in the project's format
	$(RUN)/ruff check --fix .
	$(RUN)/ruff format .

clean: ## remove what was made, the environment included
	rm -rf $(VENV) out .pytest_cache .mypy_cache .ruff_cache .hypothesis
