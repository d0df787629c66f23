# Everything runs from .venv, which `make setup` builds; each target sets up what it needs.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
JOBS ?= 3
FUZZ_SECONDS ?= 60

.DEFAULT_GOAL := help
.PHONY: help setup demo test lint fuzz bench scale golden wheel clean

help: ## this list
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## /\1\t/' | expand -t 10

setup: $(STAMP) ## a virtual environment with ndctl and all it is tested with

$(STAMP): pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit("ndctl needs Python 3.11 or newer") if sys.version_info < (3, 11) else 0'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -e '.[dev]'
	@touch $(STAMP)

demo: setup ## the main job on the embedded region: deploy 2 racks, find the planted fault
	$(BIN)/python -m tests.e2e.demo

test: setup lint ## everything that must hold
	$(BIN)/python -m pytest -n $(JOBS) --dist loadgroup

lint: setup ## style, types and who may import whom
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

fuzz: setup ## damaged texts of every tool for a minute: no crash, no false pass
	$(BIN)/python -m tests.fuzz --seconds $(FUZZ_SECONDS)

scale: setup ## 64 racks deployed, one more, one lost and brought back, a node replaced, all destroyed, on the embedded region
	$(BIN)/python -m tests.bench.scale

bench: setup ## measure fan-out, rendering and start-up against peers
	$(BIN)/pip install --quiet --disable-pip-version-check -e '.[bench]' || echo "without some peers: see tests/bench/README.md" >&2
	$(BIN)/python -m tests.bench

golden: setup ## write the rendered goldens again; read the diff before you commit it
	NDCTL_UPDATE_GOLDEN=1 $(BIN)/python -m pytest tests/render -n 0

wheel: setup ## build the wheel into dist/
	$(BIN)/python -m build --wheel

clean: ## remove what the targets made
	rm -rf $(VENV) dist build out .ndctl
