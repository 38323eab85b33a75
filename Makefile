# Every target installs what it needs by itself: `.venv` is made on first use and again when pyproject.toml changes. The package is installed as
# users install it, and again when a file below src changes; .venv/kernels keeps the object files, so only what changed is compiled.

PYTHON ?= python3
LEVELS ?= v3/Haswell v1/Nehalem# of test-levels: an instruction set of the kernels and a core type of OpenBLAS; `make test` uses the best ones
PARALLEL ?= -n auto --dist worksteal# one process per core; PARALLEL= for one process, to debug
# what is run again as on an older processor, beside a share of the structured suite
LEVEL_TESTS = contracts oracles outcomes kernels margin_kernels nnqp_kernels row_kernels row_kernels_spectral eigen_update instruction_sets
LEVEL_SHARE = 0.2
# numbers, tables, pictures, commands: about five minutes on two cores; no browsers, no clusters
MINIMUM = bad_input checks cli constraint_tables contracts coordinates correlation cut cut_input cyclic_projection datasets dual_newton \
	estimators fast_paths io io_tables kernels labels oracles outcomes packaging plots plots_points priors registry splits
# of scikit-learn 1.6 alone this one needs a package, with which it can be imported only as that test does
MINIMUM_WITHOUT = --deselect tests/test_estimators.py::test_scikit_learn_array_api_check
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/installed
SOURCES := meson.build $(shell find src -not -path '*/__pycache__*' -not -name '*.so')
CPP     = $(filter %.cpp %.hpp,$(SOURCES))
MAXIMUM_WHEEL := 8000000# bytes

# Compiled tests are kept even where the environment forbids it: to compile them anew takes each process of a run twelve seconds.
test test-slow test-all test-levels test-minimum: export PYTHONDONTWRITEBYTECODE =

.PHONY: help demo test test-slow test-all test-levels suite fuzz soak lint types format bench docs metric-learn dist locked-down test-minimum reproduce reproduce-check clean

help:
	@echo "make demo   learn a metric on wine and digits, print the tables, write bregmat-demo/"
	@echo "make test   the quick tests: about four minutes on two cores"
	@echo "make test-slow  tests that take over two seconds, or need a browser, a cluster or a fresh process"
	@echo "make test-all   both, and every result passed to bregmat.verify"
	@echo "make test-levels  oracles, contracts, outcomes, kernels and a share of the suite as on older processors (LEVELS=\"$(LEVELS)\")"
	@echo "make suite  thousands of seeded problems, judged by bregmat.verify; fails on one false word (SUITE_ARGS=\"--share 0.1\")"
	@echo "make fuzz   10,000 damaged and hostile files, and 50 saves that are killed"
	@echo "make soak   load: threads, processes, a million examples, ends at random moments; about half an hour"
	@echo "make lint   ruff, clang-format, mypy, the rules of tests/lint_sources.py, the places of tests/mutations.py, and make types"
	@echo "make types  a user's script under mypy and pyright, both strict; whether every public name says its type"
	@echo "make docs   the documentation site in build/docs, every example run; fails on a warning, a broken link or a search without its page"
	@echo "make dist   wheel and sdist in dist/, each installed in a fresh environment and tested"
	@echo "make locked-down  a read-only installation, used by someone without a home; needs root, or sudo without a password"
	@echo "make test-minimum  half of the tests, built and run with the lowest version of each that pyproject.toml allows"
	@echo "make bench  benchmarks, with the rivals in the same run"
	@echo "make metric-learn  metric-learn's own ITML tests, run against bregmat.pairs; downloads its source distribution"
	@echo "make reproduce  every figure and table of the papers, docs/reproduction.md and docs/reproduction/; data from BREGMAT_DATA, else downloaded"
	@echo "make reproduce-check  the experiments that take less than a minute, compared with the pages in docs/reproduction (RERUN=\"NAME ...\": these)"
	@echo "make clean  remove the environment and everything generated"

# The package with EXTRAS, or it alone where only its sources changed. If the build says what it lacks, only that is shown.
define install
	@mkdir -p build
	@echo "$(@D)/bin/python -m pip install ."
	@PATH="$(CURDIR)/$(@D)/bin:$$PATH" $(@D)/bin/python -m pip install --no-build-isolation --config-settings=build-dir=$(@D)/kernels \
		$(if $(filter pyproject.toml,$?),".[$(EXTRAS)]" $(ALSO),--no-deps .) > build/install.log 2>&1 || \
		{ sed -n 's/.*ERROR: Problem encountered: //p' build/install.log | head -n 1 | grep . || cat build/install.log; exit 1; }
	@touch $@
endef

# meson-python finds its tools without isolation only, and keeps the build folder only then
BUILD_REQUIRES = $(PYTHON) -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["build-system"]["requires"], "ninja", sep="\n")'

$(VENV)/build-tools: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BUILD_REQUIRES) | $(BIN)/python -m pip install --quiet --requirement /dev/stdin
	@touch $@

$(VENV)/demo: EXTRAS = cli,plot
$(VENV)/demo: pyproject.toml $(SOURCES) | $(VENV)/build-tools
	$(install)

$(STAMP): EXTRAS = all,test,dev
$(STAMP): pyproject.toml $(SOURCES) | $(VENV)/build-tools
	$(install)

demo: $(VENV)/demo
	$(BIN)/bregmat demo

test: $(STAMP)
	$(BIN)/python -m pytest $(PARALLEL) -m "not slow" $(PYTEST_ARGS)

test-slow: $(STAMP)
	$(BIN)/python -m pytest $(PARALLEL) -m slow $(PYTEST_ARGS)

test-all: $(STAMP)
	$(BIN)/python -m pytest $(PARALLEL) --verify-results $(PYTEST_ARGS)

test-levels: $(STAMP)
	@set -e; for level in $(LEVELS); do \
		export BREGMAT_LEVEL=$${level%/*} OPENBLAS_CORETYPE=$${level#*/}; \
		$(BIN)/python -m pytest $(PARALLEL) $(LEVEL_TESTS:%=tests/test_%.py) $(PYTEST_ARGS); \
		(cd tests && ../$(BIN)/python -m suite --share $(LEVEL_SHARE)); \
	done

suite: $(STAMP)
	cd tests && ../$(BIN)/python -m suite $(SUITE_ARGS)

fuzz: $(STAMP)
	$(BIN)/python tests/fuzz_files.py

soak: $(STAMP)
	$(BIN)/python tests/soak.py

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python tests/lint_sources.py
	$(BIN)/python tests/mutations.py --check
	$(BIN)/clang-format --dry-run --Werror $(CPP)
	$(BIN)/mypy
	@$(MAKE) --no-print-directory types

types: $(STAMP)
	$(BIN)/mypy --strict --follow-imports=silent tests/typed_user.py
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/pyright
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python tests/typed_surface.py

format: $(STAMP)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/clang-format -i $(CPP)

# the sdist has committed files only; the tests that run are its own
dist: $(STAMP)
	rm -rf dist build/dist
	PATH="$(CURDIR)/$(BIN):$$PATH" python -m build --no-isolation --sdist
	PATH="$(CURDIR)/$(BIN):$$PATH" python -m build --no-isolation --wheel -Cbuild-dir=$(VENV)/kernels --outdir build/dist
	PATH="$(CURDIR)/$(BIN):$$PATH" auditwheel repair --wheel-dir dist build/dist/*.whl
	$(BIN)/python -m twine check --strict dist/*
	test $$(cat dist/*.whl | wc -c) -le $(MAXIMUM_WHEEL)
	tar -xzf dist/*.tar.gz -C build/dist
	@set -e; for file in dist/*; do \
		echo "== $$file"; \
		$(PYTHON) -m venv --clear build/dist/venv; \
		build/dist/venv/bin/python -m pip install --quiet $$file "pytest>=8.2"; \
		(cd build/dist/bregmat-*/ && ../venv/bin/python -m pytest -q @tests/quick.txt); \
	done

locked-down: $(STAMP)
	$(BIN)/python tests/locked_down.py

$(VENV)-minimum/build-tools: pyproject.toml tests/lowest_versions.py
	test -x $(@D)/bin/python || $(PYTHON) -m venv $(@D)
	$(PYTHON) tests/lowest_versions.py > $(@D)/lowest.txt
	$(BUILD_REQUIRES) | $(@D)/bin/python -m pip install --quiet --constraint $(@D)/lowest.txt --requirement /dev/stdin
	@touch $@

$(VENV)-minimum/installed: EXTRAS = all
$(VENV)-minimum/installed: ALSO = --constraint $(@D)/lowest.txt pytest pytest-xdist hypothesis packaging
$(VENV)-minimum/installed: pyproject.toml $(SOURCES) | $(VENV)-minimum/build-tools
	$(install)

test-minimum: $(VENV)-minimum/installed
	$(VENV)-minimum/bin/python -m pytest $(PARALLEL) -W ignore::DeprecationWarning -W ignore::PendingDeprecationWarning $(MINIMUM:%=tests/test_%.py) $(MINIMUM_WITHOUT) $(PYTEST_ARGS)

$(VENV)/installed-bench: EXTRAS = bench
$(VENV)/installed-bench: pyproject.toml | $(STAMP)
	$(install)

bench: $(VENV)/installed-bench
	@set -e; for script in benchmarks/bench_*.py; do echo "== $$script"; $(BIN)/python $$script; done

$(VENV)/installed-docs: EXTRAS = docs
$(VENV)/installed-docs: pyproject.toml | $(STAMP)
	$(install)

# -E: every page anew, so that no warning hides behind a page that did not change
docs: $(VENV)/installed-docs
	$(BIN)/python -m sphinx -E -q --fail-on-warning --keep-going docs build/docs
	$(BIN)/python docs/check_links.py build/docs
	$(BIN)/python docs/check_search.py build/docs

metric-learn: $(STAMP)
	$(BIN)/python benchmarks/metric_learn_tests.py

reproduce: $(STAMP)
	$(BIN)/bregmat reproduce $(if $(BREGMAT_DATA),,--download) --page docs/reproduction.md

reproduce-check: $(STAMP)
	$(BIN)/python tests/rerun_page.py $(RERUN) $(if $(BREGMAT_DATA),,--download)

clean:
	rm -rf docs/gallery docs/api/generated docs/sg_execution_times.rst
	rm -rf $(VENV) $(VENV)-minimum build dist bregmat-demo bregmat-reproduction test-results.xml .pytest_cache .ruff_cache .mypy_cache
	find src tests benchmarks examples -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true
