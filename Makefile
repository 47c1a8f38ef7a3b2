# The two commands of the README are `make demo` and `make test`; `make help` lists the others.
# PYTHON=/path/to/python3 selects the interpreter of the virtual environment (3.11 or newer).

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMPS := build/stamps
# Root without any capability, with which nothing can be traced; other users have none.
UNPRIVILEGED := $(shell [ "$$(id -u)" != 0 ] || echo setpriv --bounding-set=-all --inh-caps=-all)

# BCC and clang are not on PyPI; Node.js, the C compiler, bpftrace and the browser are only for the tests.
DEMO_PACKAGES := python3-bpfcc clang-19
UNIT_TEST_PACKAGES := clang-19 gcc libc6-dev nodejs
TEST_PACKAGES := $(DEMO_PACKAGES) $(UNIT_TEST_PACKAGES) bpftrace chromium

# The screenshots of the browser tests that the documentation uses.
SCREENSHOTS := quickstart-live quickstart-result lab-kernel-live lab-kernel-result-page flame-selection cluster-row-light workshop-check workshop-board

.PHONY: help demo test-unit test test-models test-thorough coverage lint bench notebooks recordings screenshots clean

help:
	@echo 'make demo           set up and run the quickstart, NPU lab and gputrace notebooks headless (live if possible, else replayed)'
	@echo 'make test-unit      set up and run the quick unit tests (no root, no browser, no virtual machine)'
	@echo 'make test           set up and run every check: ruff, mypy, import-linter, pytest'
	@echo 'make test-models    run the tests with models that packages from PyPI ship (installs these packages)'
	@echo 'make test-thorough  the same, including slow tests: every test of the lab on three kernels'
	@echo 'make coverage       run the unit and live tests with coverage.py (as root), report in build/coverage'
	@echo 'make lint           ruff, mypy and import-linter only'
	@echo 'make bench          run benchmarks, compared with bpftrace and BCC (as root)'
	@echo 'make notebooks      run all notebooks headless, output in build/notebooks'
	@echo 'make recordings     record notebooks/recordings again (as root)'
	@echo 'make docs           build the documentation'"'"'s site in build/site'
	@echo 'make screenshots    run the browser tests and update docs/images'
	@echo 'make clean          remove build/ and .venv/'

demo: $(STAMPS)/demo
	@tools/packages --optional $(DEMO_PACKAGES)
	@tools/tracefs
	@ACCEL_MAGIC_LAB_SNAPSHOT=use $(BIN)/python tools/run_notebook.py notebooks/quickstart.ipynb notebooks/npu_lab.ipynb notebooks/gputrace.ipynb build/demo

test-unit: $(STAMPS)/dev
	@tools/packages --optional $(UNIT_TEST_PACKAGES)
	@tools/run_tests $(BIN)/python unit

test: $(STAMPS)/dev
	@tools/packages $(TEST_PACKAGES)
	@tools/tracefs
	@tools/run_tests $(BIN)/python

# silero-vad without what it needs to run its model elsewhere: PyTorch.
test-models: $(STAMPS)/models
	@$(BIN)/python -m pip install --quiet --no-deps 'silero-vad>=6'
	@$(BIN)/python -m pytest tests/models

test-thorough: export ACCEL_MAGIC_THOROUGH = 1
test-thorough: test

# Also measures the processes that tests start, except those of other Pythons (BCC's), of other users and in labs.
coverage: $(STAMPS)/dev
	@tools/packages $(TEST_PACKAGES)
	@tools/tracefs
	@rm -rf build/coverage
	@mkdir -p build/coverage
	@ACCEL_MAGIC_GPU=mock $(BIN)/coverage run -m pytest -q -n $$(nproc) --dist loadfile tests/unit || echo 'tests failed'
	@ACCEL_MAGIC_GPU=mock $(BIN)/coverage run -m pytest -q tests/live || echo 'tests failed'
	@$(BIN)/coverage combine -q
	@$(BIN)/coverage html -q
	@$(BIN)/coverage report >build/coverage/report.txt
	@$(BIN)/coverage report --fail-under=0 --format=total

lint: $(STAMPS)/dev
	@echo '== ruff, mypy and import-linter'
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

bench: $(STAMPS)/dev
	@tools/packages $(TEST_PACKAGES)
	@tools/tracefs
	@$(BIN)/python benchmarks/run.py --json build/benchmarks.json --markdown build/benchmarks.md

notebooks: $(STAMPS)/demo
	@tools/packages --optional $(DEMO_PACKAGES)
	@tools/tracefs
	@$(BIN)/python tools/run_notebook.py notebooks/*.ipynb build/notebooks

recordings: $(STAMPS)/demo
	@tools/packages $(DEMO_PACKAGES)
	@tools/tracefs
	@for name in quickstart openvino llm flame many_machines; do $(BIN)/python tools/record.py notebooks/$$name.ipynb notebooks/recordings; done
	@for kernel in 6.12 7.2; do $(BIN)/python tools/record.py --lab $$kernel notebooks/npu_lab.ipynb notebooks/recordings; done
	@$(BIN)/python -m accel_magic lab build --kernel 7.2 --accelerator
	@for name in npu_tutorial npu_faults drivers; do $(BIN)/python tools/record.py --lab 7.2 notebooks/$$name.ipynb notebooks/recordings; done

# Notebooks without any capability: they play their recordings.
docs: $(STAMPS)/docs
	@$(UNPRIVILEGED) $(BIN)/python tools/run_notebook.py --recordings notebooks/*.ipynb build/notebooks-played
	@$(BIN)/python tools/site_source.py build/site-source --notebooks build/notebooks-played
	@NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --quiet --config-file tools/site.yml
	@echo 'build/site/index.html'

screenshots: $(STAMPS)/dev
	@tools/packages $(TEST_PACKAGES)
	@tools/tracefs
	@ACCEL_MAGIC_THOROUGH=1 $(BIN)/python -m pytest tests/browser
	@mkdir -p docs/images
	@cd build/screenshots && cp -v $(addsuffix .png,$(SCREENSHOTS)) ../../docs/images/
	@ACCEL_MAGIC_GPU=mock $(BIN)/python tools/pictures.py

clean:
	rm -rf build $(VENV)

# One environment for both; a stamp file per dependency group, updated when they change.
$(STAMPS)/demo $(STAMPS)/dev $(STAMPS)/docs $(STAMPS)/models: pyproject.toml tools/venv
	@PYTHON='$(PYTHON)' tools/venv $(VENV) $(@F)
	@mkdir -p $(STAMPS) && touch $@
