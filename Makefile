# `make demo` and `make test` each work as the first command on a fresh clone that has Python 3.11 or newer, git and make.
PYTHON ?= python3
SECONDS ?= 60
ARGS ?=
PY := .venv/bin/python

.DEFAULT_GOAL := help
.PHONY: help demo test test-slow check simulate explore fuzz fuzz-api bench soak docs pages dist pictures lock clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' Makefile | sed -E 's/^([a-z-]+):.*## (.*)/  make \1\t\2/' | expand -t 20

# A stamp is written last: an interrupted installation is repeated, a complete one is not. The lock names every package that
# is needed, so pip installs it as it is: without --no-deps it would look for newer releases of what a package asks for, and
# refuse them, since the lock has no hash of theirs. pip check says whether a package lacks another.
.venv/.lock: requirements.lock
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "Asterism needs Python 3.11 or newer and $(PYTHON) is " + sys.version.split()[0] + ": make PYTHON=python3.12 demo")'
	@echo "==> creating .venv with $$($(PYTHON) --version)"
	@$(PYTHON) -m venv --clear .venv
	@echo "==> installing what requirements.lock pins, hashes checked (the first time this can take a minute or two)"
	@$(PY) -m pip install --quiet --disable-pip-version-check --require-hashes --no-deps -r requirements.lock
	@touch $@

.venv/.ok: .venv/.lock pyproject.toml
	@echo "==> installing asterism itself, editable"
	@$(PY) -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@$(PY) -m pip --disable-pip-version-check check >.venv/check.txt || { cat .venv/check.txt; echo "requirements.lock is not complete; compile it again: make lock"; exit 1; }
	@touch $@

demo: .venv/.ok ## run the main example: one sentence on four devices (ARGS="…" goes to it)
	$(PY) -m examples.digits $(ARGS)

test: .venv/.ok ## run the tests that are not marked slow (ARGS="…" goes to pytest)
	$(PY) -m pytest -n 2 -m "not slow" $(ARGS)

test-slow: .venv/.ok ## run the tests marked slow
	$(PY) -m pytest -n 2 -m slow --timeout 600 $(ARGS)

check: .venv/.ok ## format, lint, types, import layers, size limits, docs: all must be clean
	$(PY) -m ruff format --check .
	$(PY) -m ruff check .
	$(PY) -m mypy
	.venv/bin/lint-imports
	$(PY) -m pytest tests/architecture

simulate: .venv/.ok ## search simulated worlds for violated invariants (SECONDS=60; ARGS="--profile conversations")
	$(PY) -m tests.simulation --seconds $(SECONDS) $(ARGS)

explore: .venv/.ok ## explore small worlds exhaustively (ARGS="agent-4-edit"; without ARGS: list the names)
	$(PY) -m tests.simulation.explore $(ARGS)

fuzz: .venv/.ok ## search for input that is neither accepted nor rejected (SECONDS=60; at least one round)
	$(PY) -m tests.fuzz $(SECONDS)

fuzz-api: .venv/.ok ## send requests made from the OpenAPI, valid and invalid (SECONDS=60)
	$(PY) -m tests.fuzz.api $(SECONDS)

bench: .venv/.ok ## measure, beside the floors; writes benchmarks/RESULTS.md (ARGS=--quick: one run of each; ARGS=serving: only some rows)
	$(PY) -m benchmarks $(ARGS)

soak: .venv/.ok ## 20,000 runs in one process: nothing may grow (ARGS="--runs 2000")
	$(PY) -m benchmarks.soak $(ARGS)

docs: .venv/.ok ## build the site in build/site, offline; a warning or a broken link is an error
	$(PY) -m sphinx --fail-on-warning --keep-going --quiet -c docs . build/site
	@echo "build/site/index.html"

pages: .venv/.ok ## write into the pages what their commands print (ARGS="docs/guides/cron.md")
	$(PY) -m tests.pages.write $(ARGS)

dist: .venv/.ok ## build the wheel and the source archive in dist/
	rm -rf dist
	$(PY) -m hatchling build

pictures: .venv/.ok ## draw the pictures of README and site from real runs
	$(PY) docs/pictures/draw.py
	$(PY) docs/pictures/draw_console.py

# Keeps the pins that still fit; ARGS=--upgrade takes the newest. No index, link or path may be written: a lock names packages, not machines.
lock: ## compile requirements.lock from pyproject.toml again
	@$(PYTHON) -m venv .venv-lock
	@.venv-lock/bin/python -m pip install --quiet --disable-pip-version-check "uv>=0.9"
	.venv-lock/bin/uv pip compile pyproject.toml --extra a2a --extra client --extra files --extra llm --extra mcp --extra notify --extra server --extra ssh --extra talk --extra examples --extra docs --extra dev --universal --python-version 3.11 --generate-hashes \
		--no-emit-index-url --no-emit-find-links --no-annotate --no-header --quiet $(ARGS) -o requirements.lock
	@! grep -nE '://|^ *-[^-]|^--|/' requirements.lock || { echo "requirements.lock names an index, a link or a path (above)"; exit 1; }

clean: ## remove what make and the tools have written
	rm -rf .venv .venv-lock .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis build dist
	find src tests examples benchmarks docs -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true
