# Every target installs what it needs by itself: `.venv` is made on first use and again when pyproject.toml changes.

PYTHON ?= python3
CORES  ?= Haswell Nehalem# the OpenBLAS core types of test-cores: with fused multiply-add, as Zen, and without
PARALLEL ?= -n auto --dist loadfile# a process a core, whole files; PARALLEL= for one, to debug
# numbers, tables, pictures, commands: about five minutes on two cores; no browsers, no clusters
MINIMUM = bad_input checks cli constraint_tables contracts coordinates correlation cut cut_input cyclic_projection datasets dual_newton \
	estimators fast_paths io io_tables kernels labels oracles outcomes packaging plots plots_coefficients plots_points priors registry splits
# of scikit-learn 1.6 alone this one needs a package, with which it can be imported only as that test does
MINIMUM_WITHOUT = --deselect tests/test_estimators.py::test_scikit_learn_array_api_check
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/installed

.PHONY: help demo test test-cores suite suite-plain fuzz soak lint types format bench docs metric-learn dist locked-down test-minimum reproduce clean

help:
	@echo "make demo   learn a metric on wine and digits, print the tables, write bregmat-demo/"
	@echo "make test   all tests"
	@echo "make test-cores  the numerical tests as on other processors (CORES=\"$(CORES)\")"
	@echo "make suite  thousands of seeded problems, judged by bregmat.verify; fails on one false word (SUITE_ARGS=\"--share 0.1\")"
	@echo "make suite-plain  a hundredth of it without compiled loops"
	@echo "make fuzz   10,000 damaged and hostile files, and 50 saves that are killed"
	@echo "make soak   load: threads, processes, a million examples, ends at random moments; about half an hour"
	@echo "make lint   ruff and mypy, and make types"
	@echo "make types  a user's script under mypy and pyright, both strict; whether every public name says its type"
	@echo "make docs   the documentation site in build/docs, every example run; fails on a warning or a broken link inside it"
	@echo "make dist   wheel and sdist in dist/, checked"
	@echo "make locked-down  a read-only installation, used by someone without a home; needs root, or sudo without a password"
	@echo "make test-minimum  half of the tests, with the lowest version of each that pyproject.toml allows"
	@echo "make bench  benchmarks, with the rivals in the same run"
	@echo "make metric-learn  metric-learn's own ITML tests, run against bregmat.pairs; downloads its source distribution"
	@echo "make reproduce  every figure and table of the papers, and docs/reproduction.md; data from BREGMAT_DATA, else downloaded"
	@echo "make clean  remove the environment and everything generated"

$(STAMP): pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --editable ".[all,test,dev]"
	touch $(STAMP)

demo: $(STAMP)
	$(BIN)/bregmat demo

test: $(STAMP)
	$(BIN)/python -m pytest $(PARALLEL) $(PYTEST_ARGS)

test-cores: $(STAMP)
	@set -e; for core in $(CORES); do OPENBLAS_CORETYPE=$$core $(BIN)/python -m pytest -m numerical $(PARALLEL) $(PYTEST_ARGS); done

suite: $(STAMP)
	cd tests && ../$(BIN)/python -m suite $(SUITE_ARGS)

suite-plain: $(STAMP)
	cd tests && NUMBA_DISABLE_JIT=1 ../$(BIN)/python -m suite --share 0.01

fuzz: $(STAMP)
	$(BIN)/python tests/fuzz_files.py

soak: $(STAMP)
	$(BIN)/python tests/soak.py

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	@$(MAKE) --no-print-directory types

types: $(STAMP)
	$(BIN)/mypy --strict --follow-imports=silent tests/typed_user.py
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/pyright
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python tests/typed_surface.py

format: $(STAMP)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

dist: $(STAMP)
	rm -rf dist
	$(BIN)/python -m build --no-isolation
	$(BIN)/python -m twine check --strict dist/*

locked-down: $(STAMP)
	$(BIN)/python tests/locked_down.py

$(VENV)-minimum/installed: pyproject.toml tests/lowest_versions.py
	test -x $(VENV)-minimum/bin/python || $(PYTHON) -m venv $(VENV)-minimum
	$(PYTHON) tests/lowest_versions.py > $(VENV)-minimum/lowest.txt
	$(VENV)-minimum/bin/python -m pip install --quiet --constraint $(VENV)-minimum/lowest.txt --editable ".[all]" pytest pytest-xdist hypothesis packaging "hatchling>=1.24" "hatch-vcs>=0.4"
	touch $@

test-minimum: $(VENV)-minimum/installed
	$(VENV)-minimum/bin/python -m pytest $(PARALLEL) -W ignore::DeprecationWarning -W ignore::PendingDeprecationWarning $(MINIMUM:%=tests/test_%.py) $(MINIMUM_WITHOUT) $(PYTEST_ARGS)

$(VENV)/installed-bench: $(STAMP)
	$(BIN)/python -m pip install --quiet --editable ".[bench]"
	touch $@

bench: $(VENV)/installed-bench
	@set -e; for script in benchmarks/bench_*.py; do echo "== $$script"; $(BIN)/python $$script; done

$(VENV)/installed-docs: $(STAMP)
	$(BIN)/python -m pip install --quiet --editable ".[docs]"
	touch $@

# -E: every page anew, so that no warning hides behind a page that did not change
docs: $(VENV)/installed-docs
	$(BIN)/python -m sphinx -E -q --fail-on-warning --keep-going docs build/docs
	$(BIN)/python docs/check_links.py build/docs

metric-learn: $(STAMP)
	$(BIN)/python benchmarks/metric_learn_tests.py

reproduce: $(STAMP)
	$(BIN)/bregmat reproduce $(if $(BREGMAT_DATA),,--download) --page docs/reproduction.md

clean:
	rm -rf docs/gallery docs/api/generated docs/sg_execution_times.rst
	rm -rf $(VENV) $(VENV)-minimum build dist bregmat-demo bregmat-reproduction test-results.xml .pytest_cache .ruff_cache .mypy_cache
	find src tests benchmarks examples -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true
