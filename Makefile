# make demo: the experiments and a report; make test: everything that must pass. Both create .venv on first use.
VENV := .venv
BIN := $(VENV)/bin
PYTHON ?= python3
export NUMBA_CACHE_DIR := $(CURDIR)/.cache

.PHONY: demo test lint types layers tests bounds bench fuzz clean

demo: $(VENV)/user
	$(BIN)/perceptrank reproduce --out report $(if $(DATA),--data $(DATA))

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
bounds: $(VENV)/dev
	$(BIN)/pytest -n 2 -m kernel -q tests

bench: $(VENV)/dev
	$(BIN)/python benchmarks/speed.py
	$(BIN)/python benchmarks/reading.py

fuzz: $(VENV)/dev
	$(BIN)/python tests/fuzz_letor.py --seconds 600

$(VENV)/user: pyproject.toml
	test -d $(VENV) || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --editable '.[plot]'
	touch $@

$(VENV)/dev: pyproject.toml
	test -d $(VENV) || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	touch $@ $(VENV)/user

clean:
	rm -rf $(VENV) .cache .pytest_cache .mypy_cache .ruff_cache .hypothesis
