# On a machine that has Python 3.11 or newer, nothing else is needed:
#   make run     the first example, until Ctrl-C
#   make test    the tests
#   make lint    format, lint, types, import rules

PYTHON ?= python3
BIN := .venv/bin

# A stamp says what .venv holds, so that nothing is installed twice.
RUN_STAMP := .venv/installed
TEST_STAMP := .venv/installed-for-tests

.PHONY: run test lint

run: $(RUN_STAMP)
	@$(BIN)/python examples/first_job.py

test: $(TEST_STAMP)
	$(BIN)/python -m pytest

lint: $(TEST_STAMP)
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

$(RUN_STAMP): pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	@touch $@

$(TEST_STAMP): pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[test]'
	@touch $(RUN_STAMP) $@
