# Everything runs in .venv, which `make` builds itself and renews when pyproject.toml changes. What
# needs torch runs in .venv-torch: torch is large, and everything else works without it. Workflow
# managers are in .venv-recipes, because they need other versions of some packages.

PYTHON ?= python3
WORKERS ?= 2

BIN := .venv/bin
READY := .venv/.ready
DOCS_READY := .venv/.docs-ready

TORCH_BIN := .venv-torch/bin
TORCH_READY := .venv-torch/.ready
# On the package index, this is the build for the processor alone, of 0.2 GB; later ones depend on
# CUDA, several GB more that the tests have no use for.
TORCH := torch==2.13.0

RECIPES_BIN := .venv-recipes/bin
RECIPES_READY := .venv-recipes/.ready
RECIPES := 'snakemake>=9.27' 'nipype>=1.11' 'boutiques>=0.5.33'

.DEFAULT_GOAL := help
.PHONY: help environments demo test test-slow test-torch test-recipes package docs notebooks linkcheck fuzz lint format bench clean

help:  ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

test: lint  ## every check, then all tests but the slow ones (WORKERS=2)
	$(BIN)/pytest -n $(WORKERS) --dist loadfile -m "not slow"

test-slow: $(READY)  ## whole studies: the pages of the documentation, the real cohort, preparations
	$(BIN)/pytest -n $(WORKERS) --dist loadfile -m slow

test-torch: $(TORCH_READY)  ## the tests of what needs torch: brain masks, TorchIO, MONAI
	$(TORCH_BIN)/pytest tests/needs_torch

test-recipes: $(READY) $(RECIPES_READY)  ## the recipes for Snakemake, Nipype and others
	NDFLOW_RECIPES=$(RECIPES_BIN) $(BIN)/pytest -n $(WORKERS) tests/recipes

package: $(READY)  ## build sdist and wheel, and use both in an empty environment
	$(BIN)/python .ci/check_package.py

docs: $(DOCS_READY)  ## the site, in build/docs; warnings are errors
	$(BIN)/sphinx-build --fail-on-warning --keep-going --quiet docs build/docs
	@echo "wrote build/docs/index.html"

notebooks: $(DOCS_READY)  ## execute the notebooks, and store what they show
	$(BIN)/python docs/notebooks/execute.py docs/notebooks/*.ipynb

linkcheck: $(DOCS_READY)  ## try every link of the documentation (needs a network)
	$(BIN)/sphinx-build -b linkcheck --keep-going --quiet docs build/linkcheck

CASES ?= 1000
SEED ?= 0
FIRST ?= 0
CLASS ?=
fuzz: $(READY)  ## try many damaged inputs (CASES=1000 of each class, SEED=0, FIRST=0, CLASS=all)
	FUZZ_CASES=$(CASES) FUZZ_SEED=$(SEED) FUZZ_FIRST=$(FIRST) $(BIN)/pytest -n $(WORKERS) \
		--show-capture=no tests/fuzz -k "$(CLASS)"

lint: $(READY)  ## style, types and layers
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

format: $(READY)  ## fix what can be fixed by machine
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

demo: $(READY)  ## make a small study, normalise it, and show what happened
	rm -rf demo
	$(BIN)/ndflow demo demo

bench: $(READY)  ## time it: its parts, beside others, and how it grows (twenty minutes)
	$(BIN)/python benchmarks/pipeline.py
	$(BIN)/python benchmarks/rivals.py
	$(BIN)/python benchmarks/rivals.py --heads
	$(BIN)/python benchmarks/scaling.py
	$(BIN)/python benchmarks/channels.py
	$(BIN)/python benchmarks/integrations.py

clean:  ## remove all environments (.venv*) and all that is generated
	rm -rf .venv .venv-torch .venv-recipes .rivals build dist .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis \
		docs/figures/generated docs/reference/generated
	find src tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

environments: $(READY) $(DOCS_READY) $(TORCH_READY) $(RECIPES_READY)

$(READY): pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@

$(DOCS_READY): $(READY)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[docs]'
	@touch $@

# Not compiled, like the next: of the thousands of modules a few are used.
$(TORCH_READY): pyproject.toml
	$(PYTHON) -m venv .venv-torch
	$(TORCH_BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile '$(TORCH)'
	$(TORCH_BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile --editable '.[prepare,torchio,monai,report]' hypothesis pytest pyyaml
	@touch $@

$(RECIPES_READY): Makefile
	$(PYTHON) -m venv .venv-recipes
	$(RECIPES_BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile $(RECIPES)
	@touch $@
