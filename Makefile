# make demo: a first look; make test: everything that must pass. Both create .venv on first use.
VENV := .venv
BIN := $(VENV)/bin
PYTHON ?= python3
# Numba's cache does not notice an edit in a kernel that another kernel calls: a folder per state of the kernels does.
KERNELS := $(shell cat src/perceptrank/kernels/*.py src/perceptrank/arrays.py | cksum | cut -d' ' -f1)
export NUMBA_CACHE_DIR := $(CURDIR)/.cache/numba-$(KERNELS)

.PHONY: demo test lint types layers tests bounds bench clean

demo: $(VENV)/user
	$(BIN)/perceptrank demo

test: lint types layers tests bounds

lint: $(VENV)/dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

types: $(VENV)/dev
	$(BIN)/mypy

layers: $(VENV)/dev
	$(BIN)/lint-imports

tests: $(VENV)/dev
	$(BIN)/pytest -n 2

bounds: export NUMBA_BOUNDSCHECK := 1
bounds: export NUMBA_CACHE_DIR := $(CURDIR)/.cache/numba-$(KERNELS)-bounds
bounds: $(VENV)/dev
	$(BIN)/pytest -n 2 -m kernel -q tests

bench: $(VENV)/dev
	$(BIN)/python benchmarks/speed.py

$(VENV)/user: pyproject.toml
	test -d $(VENV) || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --editable .
	touch $@

$(VENV)/dev: pyproject.toml
	test -d $(VENV) || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	touch $@ $(VENV)/user

clean:
	rm -rf $(VENV) .cache .pytest_cache .mypy_cache .ruff_cache .hypothesis
