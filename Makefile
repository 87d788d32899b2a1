# `make demo` and `make check` set up everything they need in $(VENV).
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
export PATH := $(abspath $(BIN)):$(PATH)
# pyright collects its garbage less often
export NODE_OPTIONS ?= --max-semi-space-size=128
unexport PYTHONDONTWRITEBYTECODE  # else each of hundreds of processes compiles what it imports

.PHONY: demo docs check lint test lit unit torch-check soak machines clean

DEMO := test/models/bert_base.tiny

demo: $(VENV)/.demo       ## a real model goes down every level and runs on the emulated NPU
	@for level in graph fused tasks buffers program; do \
	  echo "--- $$level"; $(BIN)/ge-compile $(DEMO).onnx -o - --until $$level --quiet | \
	    sed -n '/@main/,$$p' | grep -m 1 -A 6 -E 'fused_op|wait|launch|graph.(matmul|conv)' | cut -c -110; done
	$(BIN)/ge-run $(DEMO).onnx --timing-only
	$(BIN)/ge-run $(DEMO).onnx --inputs $(DEMO).npz --compare $(DEMO).npz

check:                    ## everything that must pass, what is independent side by side
	$(MAKE) -j2 lint test

lint: $(VENV)/.check      ## ruff and pyright
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python -m ge.tools.check

docs: export NO_MKDOCS_2_WARNING := 1  # material's notice of what comes after mkdocs
docs: $(VENV)/.docs       ## the documentation as a site: build/site/index.html
	$(BIN)/python -m ge.tools.docs

test: lit unit            ## FileCheck tests and unit tests

lit: $(VENV)/.check
	$(BIN)/lit -q test

unit: $(VENV)/.check
	$(BIN)/python -m pytest -q -n auto --maxprocesses 8 --dist worksteal

TORCH := $(VENV)/torch

torch-check: $(TORCH)/.check  ## models of PyTorch, in an environment of their own (3 GB)
	$(TORCH)/bin/python -m pytest -q test/torch

# unit tests of random examples, of which the profile `soak` takes 250 times as many
RANDOM := accuracy bounds boxes byte_history embedding_tables expand_einsum expand_layers \
  ge_check gear_padding grouped_matmul in_place integer_epilogues l2 launch_times \
  lower_attention lower_channels_last lower_convolution lower_matmul lower_moves lower_quantized \
  lower_resize lower_running lower_scatter lower_sliding lower_transposed memory_limit \
  memory_plan move_transposes op_contracts open_programs orders packing pass_options plan_ranges \
  pulled_tiles quantization_layers quantization_requantize random_ops range_methods \
  recomputation relations schedule search simplify_algebra simplify_movement size_expressions \
  spellings split_launches stored_caches stored_weights tile_boxes tile_kernels tile_passes \
  tile_reuse tile_sharing views
SEED ?= 0
FOLDER ?= test/models
# $(call cases,N): N cases where CASES says nothing else
cases = --seed $(SEED) --cases $(or $(CASES),$(1))

soak: $(VENV)/.check $(VENV)/.docs  ## what takes hours; SEED=, CASES= and FOLDER= (models) as wanted
	$(BIN)/python -m pytest -q -m soak
	HYPOTHESIS_PROFILE=soak $(BIN)/python -m pytest -q $(RANDOM:%=test/unit/test_%.py)
	$(BIN)/python test/bench/planted_edits.py $(call cases,5000)
	$(BIN)/python test/bench/planted_claims.py $(call cases,750)
	$(BIN)/python test/bench/planted_faults.py $(call cases,10000)
	$(BIN)/python test/bench/planted_rewrites.py $(call cases,1000)
	$(BIN)/python test/bench/planted_tile_faults.py $(call cases,5000)
	$(BIN)/python test/bench/random_graphs.py $(call cases,10000)
	$(BIN)/python test/bench/accuracy.py $(FOLDER) --timings 5
	$(BIN)/python test/bench/validate.py $(FOLDER)
	$(BIN)/python test/bench/estimates.py $(FOLDER)/*.onnx
	$(BIN)/python test/bench/optimized_models.py $(FOLDER) --quantized
	$(BIN)/python test/bench/machines.py

machines: $(VENV)/.check  ## the suite as on other processors and in other environments
	$(BIN)/python test/bench/machines.py $(TESTS)

# what is never imported need not be compiled
$(VENV)/bin/pip:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.demo: pyproject.toml | $(VENV)/bin/pip
	$(BIN)/pip install -q --no-compile -e .
	touch $@

$(VENV)/.check: pyproject.toml | $(VENV)/bin/pip
	$(BIN)/pip install -q --no-compile -e '.[test,lint]'
	touch $@ $(VENV)/.demo

$(VENV)/.docs: pyproject.toml | $(VENV)/bin/pip
	$(BIN)/pip install -q -e '.[docs]'
	touch $@ $(VENV)/.demo

$(TORCH)/.check: pyproject.toml
	$(PYTHON) -m venv $(TORCH)
	$(TORCH)/bin/pip install -q -e '.[test,torch,test-torch]'
	touch $@

clean:                    ## remove what the tools wrote
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -prune -exec rm -rf {} +
