# Every target sets itself up: it makes the environment in VENV on its first call, and only then.
#   make demo      the whole story on one page        make test      lint, types and the fast tests
#   make nightly   the long statistical tests         make lint      lint and types alone
#   make references, make benchmarks, make judges     write docs/references.md, docs/performance.md, docs/judges.md
#   EVIDENCE_SECONDS=n  a check's seconds in `make references`, which goes on from what earlier calls have run.
#   PYTHON=/path/to/python3.11 chooses the interpreter, VENV=folder the environment, WORKERS=n the test processes.
VENV ?= .venv
PYTHON ?= python3.11
BIN := $(VENV)/bin
READY := $(VENV)/.ready
EVIDENCE_SECONDS ?= 12
WORKERS ?= $(shell $(BIN)/python -c 'import os; print(len(os.sched_getaffinity(0)))' 2>/dev/null || echo 1)

.PHONY: demo test nightly references benchmarks judges lint setup

demo: setup
	$(BIN)/python -m refcheck.demo

test: lint
	$(BIN)/python -m pytest -q -n $(WORKERS)

nightly: setup
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[dask,slurm,judge,photoreal]'
	$(BIN)/python -m pytest -q -n $(WORKERS) -m slow
	$(BIN)/python -m pytest -q -n $(WORKERS) tests/refcheck/test_vlm.py tests/refcheck/test_evaluate.py tests/simulators/test_photoreal.py

references: setup
	$(BIN)/quincunx verify scenes='*' budget=300000 seconds=240 evidence=aim evidence_seconds=$(EVIDENCE_SECONDS) out=out/references overwrite=true
	cp out/references/references.md docs/references.md

benchmarks: setup
	$(BIN)/python -m benchmarks out=docs/performance.md

judges: setup
	$(BIN)/quincunx controls suite=table scenes='*' k=72 out=out/judges overwrite=true
	cp out/judges/judges.md docs/judges.md

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

setup: $(READY)

$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' 2>/dev/null || { \
	  echo "Python 3.11 is needed ($(PYTHON) is not one: PyBullet has no wheels for later versions)."; \
	  echo "Install it, or say where it is: make $(or $(MAKECMDGOALS),setup) PYTHON=/path/to/python3.11"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade 'pip>=25.1'
	$(BIN)/python -m pip install --quiet -c constraints.txt -e . --group dev
	@touch $@
