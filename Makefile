# make demo: the experiments and a report; make test: everything that must pass; make deep: the same at length, with new
# random draws. All of them create .venv on first use.
VENV := .venv
BIN := $(VENV)/bin
PYTHON ?= python3
SEED ?= $(shell date +%s)
export NUMBA_CACHE_DIR := $(CURDIR)/.cache

.PHONY: demo test lint types layers tests bounds deep bench docs paper package fuzz clean

demo: $(VENV)/user
	$(BIN)/perceptrank reproduce --out report $(if $(DATA),--data $(DATA))

# Two jobs for two cores: tests that share a core also share what they compile, and their order is always the same.
test: $(VENV)/dev
	@$(MAKE) --no-print-directory -j2 tests bounds lint types layers

lint: $(VENV)/dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

types: $(VENV)/dev
	$(BIN)/mypy

layers: $(VENV)/dev
	$(BIN)/lint-imports

# What asserts say of their values is prepared for those that failed alone: for all, that takes as long as many tests.
tests: $(VENV)/dev
	$(BIN)/pytest --assert=plain || { $(BIN)/pytest --last-failed --last-failed-no-failures=none; exit 1; }

# Kernels once more, compiled so that they check every index (at any level of optimization and in either precision, so at
# the level that compiles soonest, and for one). It runs beside the tests and speaks when it is done.
bounds: export NUMBA_BOUNDSCHECK := 1
bounds: export NUMBA_OPT := 0
bounds: export PERCEPTRANK_EXAMPLES := 5
bounds: export PERCEPTRANK_PRECISION := double
bounds: $(VENV)/dev
	@mkdir -p "$(NUMBA_CACHE_DIR)"
	@echo "$(BIN)/pytest -m 'kernel and not deep', with checked indices"
	@$(BIN)/pytest -q -p no:cacheprovider --assert=plain -m 'kernel and not deep' \
		$$(grep -rl --include='test_*.py' pytest.mark.kernel tests) > "$(NUMBA_CACHE_DIR)/bounds.txt" 2>&1 \
		|| { cat "$(NUMBA_CACHE_DIR)/bounds.txt"; exit 1; }
	@echo "with checked indices: $$(tail -n 1 "$(NUMBA_CACHE_DIR)/bounds.txt")"

deep: $(VENV)/dev
	@echo "make deep SEED=$(SEED) draws the same again"
	$(BIN)/pytest -n 2 --dist loadfile -m 'deep or not deep' --hypothesis-profile=deep --hypothesis-seed=$(SEED)
	NUMBA_BOUNDSCHECK=1 $(BIN)/pytest -n 2 --dist loadfile -m 'deep or not deep' tests
	$(BIN)/python tests/fuzz_letor.py --seconds 120 --seed $(SEED)
	$(BIN)/python tests/fuzz_files.py --seconds 120 --seed $(SEED)

bench: export BENCHMARK_HISTORY := $(CURDIR)/.benchmarks
bench: $(VENV)/dev
	$(BIN)/python benchmarks/speed.py
	$(BIN)/python benchmarks/first_use.py
	$(BIN)/python benchmarks/reading.py
	$(BIN)/python benchmarks/tables.py
	$(BIN)/python benchmarks/evaluation.py
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/nonlinear.py teacher --sets shaped --queries 2000
	$(BIN)/python benchmarks/history.py

# The site, in site/: a warning is an error (but not with --quiet), and nothing is loaded from outside.
docs: export NO_MKDOCS_2_WARNING := 1
docs: $(VENV)/docs
	$(BIN)/mkdocs build --strict

# docs/theory.md on paper; without a browser it says so and is done.
paper: $(VENV)/docs
	$(BIN)/python docs/tools/print_theory.py dist/theory.pdf

# The wheel and the source, each installed into fresh environments and used there, with every Python that the metadata names
# and the machine has; `make package ONLY=3.12` with that one.
package:
	$(PYTHON) packaging/build.py $(if $(ONLY),--only $(ONLY))

fuzz: $(VENV)/dev
	$(BIN)/python tests/fuzz_letor.py --seconds 600 --seed $(SEED)
	$(BIN)/python tests/fuzz_files.py --seconds 600 --seed $(SEED)

# Extras of the commands that a demonstration goes on with: figures.
$(VENV)/user: pyproject.toml
	test -d $(VENV) || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --editable '.[plot]'
	touch $@

$(VENV)/docs: pyproject.toml
	test -d $(VENV) || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --editable '.[docs]'
	touch $@

$(VENV)/dev: pyproject.toml
	test -d $(VENV) || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	touch $@ $(VENV)/user $(VENV)/docs

clean:
	rm -rf $(VENV) dist site .cache .pytest_cache .mypy_cache .ruff_cache .hypothesis
