# make demo     run the paper's experiments and write a report
# make check    format, lint, types, layers, and the tests of what you changed; with NAME=ndcg, those of one measure,
#               transform or learner
# make test     everything that must pass before a change is merged
# make engines  the tests that need servers, Java engines, a browser or a cluster; the pages of the documentation; examples
# make proofs   the proofs of docs/theory/ that a machine checks, if Coq is installed
# make deep     long tests with new random draws; prints its plan first, and ends within 80 minutes
#
# All but `make proofs` create .venv on first use.
VENV := .venv
BIN := $(VENV)/bin
PYTHON ?= python3
SEED ?= $(shell date +%s)
# What `make test` runs again with bounds checks: the measures, and the passes of two learners.
RULES := tests/learners/test_rules.py
BOUNDS := tests/measures/test_measures.py $(RULES)::test_svm_map_takes_the_worst_of_all_rankings \
	$(RULES)::test_structured_ndcg_takes_the_worst_of_all_rankings
export NUMBA_CACHE_DIR := $(CURDIR)/.cache

.PHONY: demo check changed test lint types layers tests bounds engines deep bench docs paper proofs package fuzz clean

demo: $(VENV)/user
	@echo "Running the experiments: half a minute on two idle cores, a minute longer when they run first."
	$(BIN)/perceptrank reproduce --out report $(if $(DATA),--data $(DATA))
	@echo "The command perceptrank is $(BIN)/perceptrank here; try: $(BIN)/perceptrank --help"

# Two jobs for two cores. Tests share one cache of compiled kernels, so they run in one process, in a fixed order: two
# processes would compile most kernels twice.
test: $(VENV)/dev
	@$(MAKE) --no-print-directory -j2 tests bounds lint types layers

# Fewer examples than in `make test`, and only the tests of the rooms that differ from main.
check: export PERCEPTRANK_EXAMPLES := 3
check: $(VENV)/dev
	@$(MAKE) --no-print-directory -j2 lint types layers changed

changed: $(VENV)/dev
	$(BIN)/python tests/changed.py $(NAME)

lint: $(VENV)/dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

types: $(VENV)/dev
	$(BIN)/mypy

layers: $(VENV)/dev
	$(BIN)/lint-imports

# Rewriting asserts takes as long as many tests do: only tests that failed are run again with it, for the values.
tests: $(VENV)/dev
	$(BIN)/pytest --assert=plain || { $(BIN)/pytest --last-failed --last-failed-no-failures=none; exit 1; }

engines: $(VENV)/dev
	$(BIN)/pytest --assert=plain -m 'engine and not deep'

# Some kernels once more, compiled with bounds checks, without optimization, and for double precision only. `make deep`
# does it for all tests with the marker `kernel`. Prints a summary at the end, because it runs beside other jobs.
bounds: export NUMBA_BOUNDSCHECK := 1
bounds: export NUMBA_OPT := 0
bounds: export PERCEPTRANK_EXAMPLES := 3
bounds: export PERCEPTRANK_PRECISION := double
bounds: $(VENV)/dev
	@mkdir -p "$(NUMBA_CACHE_DIR)"
	@$(BIN)/pytest -q -p no:cacheprovider --assert=plain -m 'kernel and not deep' $(BOUNDS) > "$(NUMBA_CACHE_DIR)/bounds.txt" 2>&1 \
		|| { cat "$(NUMBA_CACHE_DIR)/bounds.txt"; exit 1; }
	@echo "with bounds checks: $$(tail -n 1 "$(NUMBA_CACHE_DIR)/bounds.txt")"

deep: $(VENV)/dev
	$(BIN)/python tests/deep.py --seed $(SEED)

bench: export BENCHMARK_HISTORY := $(CURDIR)/.benchmarks
bench: $(VENV)/dev
	$(BIN)/python benchmarks/speed.py
	$(BIN)/python benchmarks/first_use.py
	$(BIN)/python benchmarks/reading.py
	$(BIN)/python benchmarks/tables.py
	$(BIN)/python benchmarks/click_logs.py
	$(BIN)/python benchmarks/evaluation.py
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/nonlinear.py teacher --sets shaped --queries 2000
	$(BIN)/python benchmarks/history.py

# The site, in site/: a warning is an error (but not with --quiet), and nothing is loaded from outside.
docs: export NO_MKDOCS_2_WARNING := 1
docs: $(VENV)/docs
	$(BIN)/mkdocs build --strict

# The core of docs/theory/ as a paper; without a browser it says so and is done.
paper: $(VENV)/docs
	$(BIN)/python docs/tools/print_theory.py dist/theory.pdf

# Without Coq it says so and is done.
proofs:
	$(PYTHON) proofs/check.py

# The wheel and the source, each installed into fresh environments and used there, with every Python that the metadata names
# and the machine has; `make package ONLY=3.12` with that one.
package:
	$(PYTHON) packaging/build.py $(if $(ONLY),--only $(ONLY))

fuzz: $(VENV)/dev
	$(BIN)/python tests/fuzz_letor.py --seconds 600 --seed $(SEED)
	$(BIN)/python tests/fuzz_files.py --seconds 600 --seed $(SEED)

# Extras of the commands that a demonstration goes on with: figures.
$(VENV)/user: pyproject.toml
	@echo "Installing perceptrank and what it needs into $(VENV): about a minute."
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
