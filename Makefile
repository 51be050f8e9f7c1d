# What a person needs: `make install`, `make demo`, `make test`. Needs python3 (3.11 or later) and pip's registry, nothing else.
# Where nobody names a Python (make PYTHON=...), one of python3's version that is clearly quicker stands in for it.
# Stamps in .venv hold what was installed, so that a second call does no work; `make clean` forgets all.

PYTHON ?= python3
QUICKEST := $(if $(filter file,$(origin PYTHON)),.ci/quickest_python.py,-c 'import sys; print(sys.executable)')
VENV := .venv
BIN := $(VENV)/bin
# Of what is installed most is never imported: the rest is compiled when it is.
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile
WORKERS ?= 2
PACKAGES := common targets tensor schedules codegen cost_model runtime graph measure tuner logs

# Hundreds of child processes start in tests: each would compile the package anew where the environment forbids to keep it.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: install demo test run-tests durations test-slow coverage gpu-check lint format types wheel docs records clean

# Type checkers cannot see that the top folders are installed as tilesmith.*: links show them the installed shape, and a .pth
# file shows the links to those that look at this environment.
define links
mkdir -p .types/tilesmith && \
for package in $(PACKAGES); do ln -sfn ../../$$package .types/tilesmith/$$package; done && \
for file in __init__.py __main__.py py.typed; do ln -sfn ../../tilesmith/$$file .types/tilesmith/$$file; done && \
$(BIN)/python -c "import os, pathlib, sysconfig; site = sysconfig.get_path('purelib'); \
  pathlib.Path(site, 'tilesmith-types.pth').write_text(os.path.relpath('.types', site) + '\n')"
endef

install: $(VENV)/.installed

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Tilesmith needs Python 3.11 or later; name one with: make PYTHON=python3.12 ..."; exit 1; }
	"$$($(PYTHON) $(QUICKEST))" -m venv $(VENV)

$(VENV)/.installed: pyproject.toml | $(BIN)/python
	$(PIP) -e .
	@$(links)
	@touch $@

# Lint and types need little of what tests need: they run while the rest is installed.
$(VENV)/.checked: pyproject.toml | $(BIN)/python
	$(PIP) -e '.[check]'
	@$(links)
	@touch $@ $(VENV)/.installed

$(VENV)/.tested: $(VENV)/.checked
	$(PIP) --no-build-isolation -e '.[test]'
	@# Ray, which the tests use, brings a `tune` of its own: ours, which is `tilesmith`, is written again, over it.
	cp $(BIN)/tilesmith $(BIN)/tune
	@touch $@ $(VENV)/.installed

demo: install
	$(BIN)/python examples/demo.py

# Types are checked while what tests need is installed, and while tests run: alone they would leave all cores but one idle.
test: lint
	@$(MAKE) --no-print-directory --jobs 2 types run-tests

run-tests: $(VENV)/.tested
	$(BIN)/python -m pytest -q -n $(WORKERS) --dist worksteal

# Processor seconds of each file of tests.
durations: $(VENV)/.tested
	PYTHONPATH=tests $(BIN)/python -m pytest -q -n $(WORKERS) --dist worksteal -p helpers.processor_time

test-slow: $(VENV)/.tested
	$(BIN)/python -m pytest -q -n $(WORKERS) --dist worksteal -m 'slow or hypothesis' --hypothesis-profile new --timeout 900

# Lines and branches of the product that tests run, in child processes too; fails below 92 %. ONNX's own tests of all operators,
# of which the quick tests take a sample, are counted too.
coverage: $(VENV)/.tested
	$(BIN)/python -m pytest -q -n $(WORKERS) --dist worksteal --timeout 600 --cov --cov-report= --cov-fail-under=0
	$(BIN)/python -m pytest -q --timeout 600 -m slow --cov --cov-append --cov-report=term tests/graph/importers/test_onnx_nodes.py

# Kernels on this machine's GPU: right by the oracle, and how fast next to torch, where that is installed. Under 8 minutes.
gpu-check: install
	$(BIN)/python benchmarks/gpu_check.py

lint: $(VENV)/.checked
	$(BIN)/ruff check --quiet
	$(BIN)/ruff format --check --quiet

format: $(VENV)/.checked
	$(BIN)/ruff check --quiet --fix
	$(BIN)/ruff format --quiet

types: $(VENV)/.checked
	@$(links)
	@cd .types && ../$(BIN)/mypy --config-file ../pyproject.toml --cache-dir ../.mypy_cache -p tilesmith

wheel: $(VENV)/.tested
	$(BIN)/python -m build --wheel --no-isolation

# The site of documents in site/. Strict: a page without a place, or a link that leads nowhere, ends it (not with --quiet, which takes
# warnings away and so what is strict about them).
docs: $(VENV)/.documented
	@$(links)
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

$(VENV)/.documented: pyproject.toml | $(VENV)/.installed
	$(PIP) -e '.[docs]'
	@touch $@

# Tunes models on this machine, and adds the best records of their kernels to those that the project ships; see CONTRIBUTING.md.
MODELS ?= resnet18 resnet50 mobilenet_v2 squeezenet1_1
SECONDS_EACH ?= 240
records: install
	$(BIN)/python benchmarks/ship_records.py --seconds $(SECONDS_EACH) $(MODELS)

clean:
	rm -rf $(VENV) .types build dist site *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
