# Two commands do everything: `make demo` and `make test`. Each sets up its own environment first.
PYTHON ?= python3.11
BIN := .venv/bin
STAMP := .venv/.installed
SUDO := $(shell [ "$$(id -u)" = 0 ] || echo sudo)

.PHONY: demo test browser lint benchmark calibration reference clean

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

# The full calibration table: 2,000 games a cell, about 50 minutes on two cores.
calibration: $(STAMP)
	$(BIN)/dpaudit calibrate --full --trials 2000 --output docs/calibration.json
	$(BIN)/python docs/make_calibration.py

reference: $(STAMP)
	$(BIN)/python docs/make_reference.py

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[accounting,dask,data,dev]'
	touch $(STAMP)

clean:
	rm -rf .venv build dist demo .pytest_cache .mypy_cache .ruff_cache .hypothesis
