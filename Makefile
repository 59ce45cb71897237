# Two commands matter: `make audit` (the main job on an embedded data set) and `make test`.
# Each works alone on a fresh clone and does nothing twice.

PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

.PHONY: audit test check docs dist bench paper clean

audit: .venv/installed
	$(BIN)/butfor audit german --out butfor-audit --overwrite

# Tests that start processes, browsers or clusters are marked `system` and run apart.
test: .venv/installed-dev
	$(BIN)/python -m pytest -m "not system"
	$(BIN)/python -m pytest -m system $(shell grep -rl --include=*.py mark.system tests)

check: .venv/installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/codespell
	$(BIN)/zizmor --offline --quiet .github
	$(BIN)/repo-review --show err .

docs: .venv/installed-docs
	$(BIN)/python docs/examples/build.py
	$(BIN)/zensical build --clean --strict

# The wheel and the source distribution, as they would be published.
dist: .venv/installed-dev
	rm -rf dist
	$(BIN)/python -m hatchling build
	$(BIN)/python -m twine check --strict dist/*

bench: .venv/installed
	$(BIN)/python -m benchmarks.engines

paper: .venv/installed
	$(BIN)/python -m evaluation all --results docs/results --out butfor-paper

.venv/installed: pyproject.toml constraints.txt
	@echo "Setting up .venv (a few minutes the first time: PyTorch is large)"
	$(PYTHON) -m venv .venv
	$(PIP) --upgrade pip
	$(PIP) --editable ".[net]"
	@touch $@

.venv/installed-dev: .venv/installed
	$(PIP) --group dev --editable ".[net]"
	@touch $@

.venv/installed-docs: .venv/installed
	$(PIP) --group docs --editable ".[net]"
	@touch $@

clean:
	rm -rf .venv butfor-audit dist site
