# Two commands do everything: `make demo` and `make test`. Both set up what they need first, once.
# Needed: Python >= 3.11, and make. uv is used when it is there, and fetched into .venv-uv when it is not.

PYTHON ?= python3
UV := $(or $(shell command -v uv 2>/dev/null),.venv-uv/bin/uv)
READY := .venv/.ready
RUN := .venv/bin/

.PHONY: demo test test-quiet chaos check fix bench test-vllm clean

demo: $(READY)  ## the main job: diagnose a real server, restart it as advised, show what it bought
	$(RUN)widelane demo

test: $(READY)  ## all tests: side by side, then those with a real server, which need the machine to themselves
	$(RUN)pytest -n logical --dist worksteal -m "not live"
	$(RUN)pytest -m "live and not quiet"

test-quiet: $(READY)  ## the tests that compare times with predictions: nothing else may run beside them
	$(RUN)pytest -m quiet

chaos: $(READY)  ## 1,000 seeded runs with faults through the lanes and the store, on simulated servers (minutes)
	$(RUN)pytest -q tests/chaos --chaos-seeds 1000

check: $(READY)  ## style, types and the import contracts
	$(RUN)ruff check .
	$(RUN)ruff format --check .
	$(RUN)mypy
	$(RUN)lint-imports

fix: $(READY)
	$(RUN)ruff check --fix .
	$(RUN)ruff format .

bench: $(READY)  ## what the client costs, beside other clients (installs them)
	$(UV) sync --locked --quiet --inexact --extra embedded --extra fast --group bench
	$(RUN)python benchmarks/client.py

test-vllm: $(READY)  ## a real vLLM on the CPU (installs 3.5 GB into .venv-vllm)
	$(RUN)python scripts/test_vllm.py

clean:
	rm -rf .venv .venv-uv .venv-vllm .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache dist

$(READY): pyproject.toml uv.lock $(filter .venv-uv/bin/uv,$(UV))
	$(UV) sync --locked --quiet --extra embedded --extra fast
	@touch $(READY)

.venv-uv/bin/uv:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Widelane needs Python 3.11 or newer; set PYTHON=/path/to/python3.11 or install uv." >&2; exit 2; }
	$(PYTHON) -m venv .venv-uv
	.venv-uv/bin/python -m pip install --quiet --disable-pip-version-check uv
