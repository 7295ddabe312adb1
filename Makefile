# `make demo` and `make test` do all on a fresh machine; each target is idempotent.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
# the package must also load with datasets 3, which cannot stand beside datasets 5
VENV3 := .venv-datasets3

.PHONY: demo test lint types bench clean install

install: $(INSTALLED)

$(VENV)/pyvenv.cfg:
	$(PYTHON) -m venv $(VENV)

$(INSTALLED): $(VENV)/pyvenv.cfg setup.cfg pyproject.toml constraints.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[api,build,dev,japanese,mteb,openvino,st,test]'
	touch $@

demo: $(INSTALLED)
	$(BIN)/python eval/run.py --suite sample --model lexical --output results
	$(BIN)/jfinteb show results
	$(BIN)/jfinteb report results

$(VENV3)/.installed:
	$(PYTHON) -m venv $(VENV3)
	$(VENV3)/bin/python -m pip install --quiet --disable-pip-version-check datasets==3.6.0 PyYAML
	touch $@

test: $(INSTALLED) $(VENV3)/.installed
	JFINTEB_DATASETS3=$(CURDIR)/$(VENV3)/bin/python $(BIN)/python -m pytest -n 2 --dist worksteal

lint: $(INSTALLED)
	$(BIN)/ruff check . && $(BIN)/ruff format --check .

# mypy cannot see the editable mapping of setup.cfg, so it gets the same tree as links
types: $(INSTALLED)
	mkdir -p .build/types/jfinteb
	for room in build dataset_cards eval loaders; do ln -sfn ../../../$$room .build/types/jfinteb/$$room; done
	$(BIN)/mypy -p jfinteb.build -p jfinteb.eval -p jfinteb.loaders

# encoding is measured on the model folder that JFINTEB_MODEL names
bench: $(INSTALLED)
	@if [ -n "$$JFINTEB_MODEL" ]; then \
	  $(BIN)/python tests/bench/bench_encode.py --backends transformers,openvino && \
	  $(BIN)/python tests/bench/bench_suite.py; \
	else echo "no JFINTEB_MODEL: encoding is not measured"; fi
	$(BIN)/python tests/bench/bench_score.py
	$(BIN)/python tests/bench/bench_memory.py
	$(BIN)/python tests/bench/bench_dump.py

clean:
	rm -rf $(VENV) $(VENV3) .build .mypy_cache .pytest_cache .ruff_cache .hypothesis *.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
