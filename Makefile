# Two commands do everything: `make demo` and `make test`. Each sets up its own environment first: the demo with the core
# and its small extras, the tests with everything (torch and Opacus too, and experiments/, a package of its own).
PYTHON ?= python3.11
BIN := .venv/bin
CORE := .venv/.core
STAMP := .venv/.everything
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt
SUDO := $(shell [ "$$(id -u)" = 0 ] || echo sudo)

.PHONY: demo test browser lint benchmark mutation calibration data papers placebo reference clean

demo: $(CORE)
	$(BIN)/dpaudit demo --output demo

test: $(STAMP) browser lint
	$(BIN)/python -m pytest -n 2

# Chromium opens the report in the tests; it comes from Debian's packages.
browser:
	@command -v chromium > /dev/null || { $(SUDO) apt-get update -q && \
	  $(SUDO) apt-get install -y -q --no-install-recommends chromium; }

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# Breaks one statistically critical line at a time, and expects a named test to notice: about two minutes on two cores.
mutation: $(STAMP)
	$(BIN)/python -m tests.mutation.run

benchmark: $(STAMP)
	$(BIN)/python benchmarks/estimators.py
	$(BIN)/python benchmarks/execution.py
	$(BIN)/python benchmarks/dpsgd.py
	$(BIN)/python benchmarks/observational.py
	$(BIN)/python benchmarks/prediction.py
	$(BIN)/python benchmarks/zero_run.py
	$(BIN)/python benchmarks/panoramia.py
	$(BIN)/python benchmarks/placebo.py

# Fetches 437 MB into DPAUDIT_DATA, or ~/.cache/dpaudit; needs npm and apt-get. Only the experiments of papers want it.
data: $(STAMP)
	$(BIN)/python -m dpaudit_experiments.data all

# The experiments of papers 000 to 004, after `make data`: some four and a half hours on two cores.
papers: $(STAMP)
	$(BIN)/dpaudit reproduce observational --output docs/results/paper-000
	$(BIN)/dpaudit reproduce substitute --output docs/results/paper-001
	$(BIN)/dpaudit reproduce prediction --output docs/results/paper-002
	$(BIN)/dpaudit reproduce zero-run --output docs/results/paper-003
	$(BIN)/dpaudit reproduce panoramia --output docs/results/paper-004
	$(BIN)/python docs/make_papers.py

# Rows never seen as a control of observational audits, after `make data`: some hours on two cores; goes on after a kill.
placebo: $(STAMP)
	$(BIN)/python -m dpaudit_experiments.placebo --output docs/results/placebo

# The full calibration table: 2,000 games a cell, about 50 minutes on two cores.
calibration: $(STAMP)
	$(BIN)/dpaudit calibrate --full --trials 2000 --output docs/calibration.json
	$(BIN)/python docs/make_calibration.py

reference: $(STAMP)
	$(BIN)/python docs/make_reference.py

$(CORE): pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(PIP) -e '.[accounting,dask,data]'
	touch $(CORE)

$(STAMP): $(CORE) experiments/pyproject.toml
	$(PIP) -e '.[accounting,catboost,dask,data,dev,llm,onnx,opacus,torch]' -e './experiments[all]'
	touch $(STAMP)

clean:
	rm -rf .venv build dist demo .pytest_cache .mypy_cache .ruff_cache .hypothesis
