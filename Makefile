# `make demo` and `make test` each set up everything they need. `make help` lists the rest.
SHELL := /bin/bash
.DEFAULT_GOAL := help
VENV := .venv
STAMP := $(VENV)/.handful-installed
RUN := $(VENV)/bin
JOBS ?= 2
export OMP_NUM_THREADS ?= 1

.PHONY: help setup demo test test-fast fuzz kills road pythons lint format wheel licences sbom audit clean

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
	$(RUN)/pytest -n $(JOBS) --dist worksteal --durations 25 --durations-min 5

test-fast: $(STAMP) ## unit and property tests that take seconds
	$(RUN)/pytest -n $(JOBS) --dist worksteal -m "not slow" tests/unit tests/property

MINUTES ?= 30
fuzz: $(STAMP) ## spoil everything that is read, for MINUTES minutes (30)
	PYTHONPATH=tests $(RUN)/python -m fuzz --minutes $(MINUTES)

KILLS ?= 300
kills: $(STAMP) ## kill saving, training, benchmarks and reports KILLS times (300)
	PYTHONPATH=tests $(RUN)/python -m kills --kills $(KILLS)

road: $(STAMP) ## the road of a new user (docs/road.md) with ten recordings, timed
	HANDFUL_ROAD=1 $(RUN)/pytest -q -s tests/integration/test_new_user_road.py

pythons: $(STAMP) ## run what a robot needs on every Python from 3.10 to 3.13 that is at hand
	bash scripts/pythons $(VENV)

lint: $(STAMP)
	$(RUN)/ruff check .
	$(RUN)/ruff format --check .
	$(RUN)/mypy

format: $(STAMP) ## rewrite the code in the project's format
	$(RUN)/ruff check --fix .
	$(RUN)/ruff format .

RELEASE := $(VENV)/.handful-release
$(RELEASE): $(STAMP)
	$(RUN)/pip install --quiet --editable '.[release]' -c constraints.txt
	@touch $@

wheel: $(RELEASE) ## dist/: the wheel and the source distribution
	$(RUN)/python -m build --no-isolation

licences: $(RELEASE) ## docs/licences.md: the licences of everything that is installed with handful
	bash scripts/licences $(RUN) > docs/licences.md

sbom: $(RELEASE) ## sbom.json: what is installed, as a CycloneDX bill of materials
	$(RUN)/cyclonedx-py environment --pyproject pyproject.toml --of JSON --output-file sbom.json $(RUN)/python

audit: $(RELEASE) ## what is installed, checked against known vulnerabilities
	$(RUN)/pip-audit --skip-editable

clean: ## remove what was made, the environment included
	rm -rf $(VENV) out .pytest_cache .mypy_cache .ruff_cache .hypothesis
