# train and test on a fresh machine: `make train`, `make test`; the site: `make docs`. Settings go in ARGS:
# `make train ARGS="num_steps=5"`, another experiment of conf/experiment in EXPERIMENT: `make train EXPERIMENT=ada`.
PYTHON ?= python3
VENV_PYTHON := .venv/bin/python
EXPERIMENT ?= ada_seq_balance
ARGS ?=

# Setup compiles nothing ahead, so a Python that may not keep what it compiled would spend half a minute on it at every
# start. Containers often set this.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: train test test-all check docs setup clean

train: setup
	$(VENV_PYTHON) train.py +experiment=$(EXPERIMENT) $(ARGS)
	$(if $(filter auto,$(EXPERIMENT)),,@echo "would it pay to choose prompts? a run that tests it: make train EXPERIMENT=auto (docs/auto.md)")

PYTEST := $(VENV_PYTHON) -m pytest -n logical --maxprocesses 4 --dist loadgroup

test: check
	$(PYTEST) -m "not long" $(ARGS)

# With the whole runs that take minutes: before a release, and after a change of what they are about.
test-all: check
	$(PYTEST) $(ARGS)

check: setup
	$(VENV_PYTHON) -m ruff check
	$(VENV_PYTHON) -m ruff format --check
	$(VENV_PYTHON) -m mypy
	$(VENV_PYTHON) scripts/lint_prose.py

# Has an environment of its own, but for the pages that are made of recipes and a notebook.
docs: setup .venv-docs/.ready
	$(VENV_PYTHON) scripts/build_site.py pages
	.venv-docs/bin/python scripts/build_site.py

.venv-docs/.ready: requirements/docs.txt | setup
	$(PYTHON) -m venv .venv-docs
	.venv/bin/uv pip install --quiet --no-deps --python .venv-docs/bin/python -r requirements/docs.txt \
		|| .venv-docs/bin/python -m pip install --no-deps --disable-pip-version-check -qq -r requirements/docs.txt
	@touch $@

setup: .venv/.ready

# Runs again only when what is installed could differ.
.venv/.ready: pyproject.toml requirements/cpu.txt scripts/setup.py
	$(PYTHON) scripts/setup.py
	@touch $@

# What `make` made. Runs, MLflow's store and the model cache stay.
clean:
	rm -rf .venv .venv-docs site .cache docs/experiments.md docs/notebooks/first_run.md .mypy_cache .ruff_cache .pytest_cache .hypothesis build dist
	find . -name __pycache__ -prune -exec rm -rf {} +
