# Two commands matter to a newcomer: `make demo` and `make test`. Both set up what they need in .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

# With "=", or a second run would take the file that is there for a place of tests.
THREATS := --threat-results=out/threats.json

.PHONY: demo test lint threats eval bench truth releases shells clean lock

$(STAMP): requirements.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(not ((3, 11) <= sys.version_info[:2] < (3, 14)))' || \
	  { echo "leadline needs Python 3.11 to 3.13; name one: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	@$(PYTHON) -m venv $(VENV) || { echo "no venv module: apt-get install python3-venv"; exit 1; }
	@echo "installing into $(VENV), once; this takes a minute or two"
	$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements.txt
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

demo: $(STAMP)
	$(BIN)/leadline ask lab:kimi-k26-pp8 "PP8 decode is slow: 24 tok/s, GPUs at 85 W of 600 W" --mode apply --approve

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# What judges figures measured in real time is given a second try with less beside it, and no third.
test: lint
	rm -f out/threats.json
	$(BIN)/pytest -n 4 --dist loadgroup -m "not timed" $(THREATS)
	$(BIN)/pytest -n 3 -m timed $(THREATS) || $(BIN)/pytest --last-failed -m timed $(THREATS)
	$(BIN)/python tests/threat_table.py out/threats.json docs/security.md
	$(BIN)/leadline eval --gate --jobs 4 || $(BIN)/leadline eval --gate --jobs 2

# The table of docs/security.md from its tests alone; what this machine cannot run keeps its committed figures.
threats: $(STAMP)
	rm -f out/threats.json
	$(BIN)/pytest -n 2 --dist loadgroup -m threat $(THREATS)
	$(BIN)/python tests/threat_table.py out/threats.json docs/security.md

eval: $(STAMP)
	$(BIN)/leadline eval --jobs 4

# Every release of the engines, fetched and counted: nightly, some twenty minutes, with the network.
releases: $(STAMP)
	$(BIN)/python -m evals.releases

# Nightly: 200,000 generated commands, what the policy understood against what bash and dash start; some minutes.
shells: $(STAMP)
	$(BIN)/python -m evals.policy_shells 200000

bench: $(STAMP)
	$(BIN)/python -m evals.bench

# Nightly: our evaluation of settings against what the engines' own code made of launch lines, as recorded by
# `python -m evals.truth make`; takes hours.
truth: $(STAMP)
	$(BIN)/python -m evals.truth compare --write docs/settings-truth.md

# The pins: needs the network, run by hand when dependencies change.
lock: $(STAMP)
	$(BIN)/pip install --quiet pip-tools
	$(BIN)/pip-compile --quiet --generate-hashes --no-emit-index-url --no-emit-find-links --allow-unsafe \
	  --strip-extras --extra dev --extra slack --no-header -o requirements.txt pyproject.toml

clean:
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache
