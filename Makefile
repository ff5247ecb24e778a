# The commands of this project; `make` alone lists them.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

PYTHON ?=  # tried first; else python3.11 and its like on the PATH
BIN := .venv/bin
# Twice quiet: pip warns of every index location that does not hold a package; errors still show.
PIP := $(BIN)/python -m pip --disable-pip-version-check -qq
CANARY_PIP := .venv-canary/bin/python -m pip --disable-pip-version-check -qq
FIELD_PIP := .venv-field/bin/python -m pip --disable-pip-version-check -qq
# Modules are compiled as they are imported: all of them at once is half of what setup takes.
export PIP_NO_COMPILE := 1
READY := .venv/ready
# A module's tests share what they made. Files go out in the order of tests/conftest.py, those
# that take long first, and not as xdist would have it, those with many tests first.
ALONE := $(BIN)/pytest -n 2 --dist loadfile --no-loadscope-reorder
# Beside the tests with Ray: it gives its workers a niceness of 15 (Ray 2.60,
# RAY_worker_niceness), and they would starve beside tests that have none.
NICE := nice -n 19
# Tests start many a process that imports chaos: what one has compiled, the others read.
unexport PYTHONDONTWRITEBYTECODE
S3_READY := .venv-s3/ready
FIELD_READY := .venv-field/ready

# A Python of the right age that can make virtual environments, or why there is none.
define find_python
for python in $(PYTHON) python3.11 python3.12 python3; do \
    if $$python -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 12))' \
        2>/dev/null; then break; fi; \
    python=; \
done; \
if [ -z "$$python" ]; then \
    echo "chaos: Python 3.11 or 3.12 is needed, and neither is on the PATH." >&2; \
    echo "chaos: install one, or name it: make setup PYTHON=/path/to/python3.11" >&2; \
    exit 1; \
fi; \
if ! $$python -c 'import ensurepip, venv' 2>/dev/null; then \
    echo "chaos: $$python cannot make virtual environments: its venv module is missing." >&2; \
    echo "chaos: on Debian and Ubuntu it is the package $$($$python -c \
        'import sys; print("python3.%d-venv" % sys.version_info[1])')." >&2; \
    exit 1; \
fi
endef

# Format, lint, types, and imports between the layers; silent where they are right.
define CHECK_STATICALLY
echo "chaos: formatting, linting, types, imports between the layers"; \
$(BIN)/ruff format --check --quiet || { echo "chaos: run $(BIN)/ruff format" >&2; exit 1; }; \
$(BIN)/ruff check --quiet || exit 1; \
$(BIN)/mypy --no-error-summary || exit 1; \
contracts=$$($(BIN)/lint-imports 2>&1) || { echo "$$contracts" >&2; exit 1; }
endef

.PHONY: help setup s3 field canary demo bench matrix statistics pictures docs mutants campaigns nightly test check coverage static clean

help:  ## list the commands
	@sed -n 's/^\([a-z0-9]*\): .*## /  make \1\t/p; s/^\([a-z0-9]*\):  *## /  make \1\t/p' \
	    $(MAKEFILE_LIST) | expand -t 16

setup: $(READY)  ## make .venv with everything in it (some minutes, once)

$(READY): pyproject.toml constraints.txt Makefile
	@$(find_python); \
	echo "chaos: making .venv with $$($$python --version)"; \
	$$python -m venv .venv
	@$(PIP) install --constraint constraints.txt --upgrade pip
	@echo "chaos: installing torch"
	@$(PIP) install --constraint constraints.txt torch
	@echo "chaos: installing chaos, Ray and the development tools (some minutes, once)"
	@$(PIP) install --constraint constraints.txt --editable '.[ray]' --group dev
	@touch $(READY)
	@echo "chaos: ready: $(BIN)/chaos"

s3: $(S3_READY)  ## make .venv-s3, with a server that stands in for S3 in tests and scenarios

$(S3_READY): constraints-s3.txt Makefile
	@$(find_python); \
	echo "chaos: making .venv-s3 with $$($$python --version)"; \
	$$python -m venv .venv-s3
	@.venv-s3/bin/python -m pip --disable-pip-version-check -qq install \
	    --constraint constraints-s3.txt 'moto[server]'
	@touch $(S3_READY)

field: $(FIELD_READY)  ## find the defects of docs/found.md again, in .venv-field, which it makes (half an hour)
	@.venv-field/bin/chaos selftest --corpus tests/corpus --max-runs 18 \
	    $$(.venv-field/bin/python -m tests.tools.found)

$(FIELD_READY): pyproject.toml constraints.txt Makefile
	@$(find_python); \
	echo "chaos: making .venv-field with $$($$python --version)"; \
	$$python -m venv .venv-field
	@$(FIELD_PIP) install --constraint constraints.txt --upgrade pip
	@echo "chaos: installing torch, chaos and Ray (some minutes, once)"
	@$(FIELD_PIP) install --constraint constraints.txt torch
	@$(FIELD_PIP) install --constraint constraints.txt --editable '.[ray]' scikit-learn
	@echo "chaos: installing the libraries of docs/found.md"
	@$(FIELD_PIP) install --constraint constraints.txt accelerate datasets h5py lightning torchdata \
	    transformers
	@# litdata names torchvision, of which no build fits torch's for the CPU on PyPI. What it imports
	@# is installed by name.
	@$(FIELD_PIP) install --constraint constraints.txt --no-deps litdata boto3 botocore jmespath \
	    s3transfer
	@touch $(FIELD_READY)

# The newest Ray that installs, or RAY=2.59.0; its tests are those of a merge, on real clusters.
canary: $(READY)  ## what the newest Ray changed of what chaos uses, and the tests with it (some ten minutes)
	@$(find_python); rm -rf .venv-canary; $$python -m venv .venv-canary
	@grep -v '^ray==' constraints.txt >.venv-canary/constraints.txt
	@$(CANARY_PIP) install --constraint .venv-canary/constraints.txt --upgrade pip
	@$(CANARY_PIP) install --constraint .venv-canary/constraints.txt torch
	@$(CANARY_PIP) install --constraint .venv-canary/constraints.txt \
	    'ray[train]$(if $(RAY),==$(RAY))' --editable . --group dev
	@status=0; \
	$(BIN)/python -m tests.tools.canary .venv-canary/bin/python || status=$$?; \
	.venv-canary/bin/pytest tests/ray -m "not nightly" || status=$$?; \
	exit $$status

demo: $(READY)  ## audit a correct job and one with a bug, then inject faults on a local Ray cluster
	@echo "chaos: a correct job"
	@$(BIN)/chaos audit scenarios/jobs/digits_ddp.py -- --epochs 4
	@echo; echo "chaos: the same job with a bug, so that this audit must fail"
	@$(BIN)/chaos audit scenarios/jobs/digits_optimizer_lost.py -- --epochs 4 \
	    || [ $$? -eq 1 ]
	@echo; echo "chaos: two faults on a local Ray cluster"
	@$(BIN)/chaos run scenarios/smoke/worker_killed_mid_epoch.chaos.yaml \
	    scenarios/smoke/spot_notice_then_loss.chaos.yaml

bench: $(READY)  ## the figures of docs/benchmarks.md, measured here (some minutes)
	@$(BIN)/python -m tests.bench.bench
	@$(BIN)/python -m tests.bench.judging
	@$(BIN)/python -m tests.bench.cluster
	@$(BIN)/python -m tests.bench.audits
	@$(BIN)/python -m tests.bench.lanes
	@$(BIN)/python -m tests.bench.shares
	@$(BIN)/python -m tests.bench.census

docs: $(READY)  ## the pages as a site, in site/
	@$(BIN)/python -m tests.tools.reference
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet
	@echo "chaos: site/index.html"

matrix: $(READY)  ## which fault is injected where: write it into scenarios/README.md
	@$(BIN)/python -m tests.tools.matrix

statistics: $(READY)  ## how often each statistic errs: write it into docs/statistics.md (two minutes)
	@$(BIN)/python -m tests.tools.rates

pictures: $(READY)  ## the pictures in docs/, taken of reports made here (needs Chromium)
	@$(BIN)/python -m tests.browser.pictures

mutants: $(READY)  ## does a test notice when a check is wrong? a seeded sample (some ten minutes)
	@$(BIN)/python -m tests.mutation.hunt $(MUTANTS)

test: $(READY)  ## everything that must hold before a merge, real Ray clusters included
	@echo "chaos: checking, and testing without Ray and beside it with Ray, which waits most of its time"
	@status=0; with_ray=$$(mktemp); trap 'rm -f "$$with_ray"' EXIT; \
	( $(CHECK_STATICALLY) ) & static=$$!; \
	$(BIN)/pytest tests/ray -m "ray and not nightly" >"$$with_ray" 2>&1 & ray=$$!; \
	$(NICE) $(ALONE) || status=$$?; \
	wait $$ray || status=$$?; \
	wait $$static || { status=$$?; echo "chaos: the static checks failed, see above" >&2; }; \
	cat "$$with_ray"; \
	exit $$status

campaigns: $(READY)  ## chaos itself under attack: a line of figures for each campaign (four hours)
	@status=0; \
	for campaign in kills "kills --backend ray --tries 12" files records environments intruder \
	    forks restarts; do $(BIN)/python -m tests.campaigns.$$campaign || status=$$?; done; \
	exit $$status

nightly: static coverage $(S3_READY)  ## all of it: every scenario on Ray, every campaign in full (six hours)
	@$(BIN)/pytest --hypothesis-profile nightly -m "ray or nightly or not ray"
	@$(BIN)/python -m tests.tools.s3 $(BIN)/chaos run scenarios
	@$(MAKE) --no-print-directory canary

check: static  ## format, lint, types, imports, and the tests that are quick (two minutes)
	@echo "chaos: testing"
	@$(ALONE) -m "not (ray or nightly or embedded or slow)"

coverage: $(READY)  ## how much of the pure parts their tests reach; fails below the floor (five minutes)
	@$(BIN)/coverage run -m pytest -q -m "not (ray or nightly or embedded)" \
	    tests/plan tests/check tests/extensions/lab/compare tests/faults tests/scenario tests/report tests/recorded
	@$(BIN)/coverage report --skip-covered --sort cover

static: $(READY)
	@$(CHECK_STATICALLY)

clean:  ## remove caches and build output; .venv and reports stay
	@rm -rf build dist .hypothesis .mypy_cache .pytest_cache .ruff_cache .import_linter_cache
	@rm -f .coverage
	@find chaos tests scenarios -name __pycache__ -type d -prune -exec rm -rf {} +
