# make demo   create .venv, install, audit the embedded graph and train on it, write demo/report.html
# make test   lint, types, import rules and tests: what CI runs
# make fuzz   10,000 malformed inputs through every way in; make crash   kills, full disks, two at once
# make test-oldest   the fast tests with the oldest supported versions, in their own environment
# make release   sdist and wheel in dist/, checked in a clean environment; make audit   licences and pins
# make docs   the documentation as a site in site/
# make bench, make profile, make reproduce   speed and published cells; see ERASE_DATA in docs/methods.md
# make results   docs/results.md and docs/papers100m.md from the committed records
# make catalogue   what `erase list` shows, from the registries
VENV   := .venv
PYTHON := python3
BIN    := $(VENV)/bin
# what is installed: the package, its test tools, the tools of the documentation
READY  := $(VENV)/.ready
TESTS  := $(VENV)/.ready-test
DOCS   := $(VENV)/.ready-docs
OLDEST := .venv-oldest
TORCH  := 2.13.0
PIP    := $(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt

.PHONY: demo test test-all test-oldest fuzz crash release audit lint docs bench profile reproduce results catalogue clean

demo: $(READY)
	$(BIN)/erase demo --out demo

# a process for each of up to four cores, a thread in each: small products are no faster by two
test: lint
	OMP_NUM_THREADS=1 $(BIN)/pytest -n auto --maxprocesses 4 --dist worksteal

test-all: lint
	OMP_NUM_THREADS=1 $(BIN)/pytest -n auto --maxprocesses 4 --dist worksteal -m ""

# httpx: for the test client of the oldest starlette. The oldest torch is another one, which TORCH names: make test-oldest TORCH=2.11.0
test-oldest:
	test -x $(OLDEST)/bin/python || $(PYTHON) -m venv $(OLDEST)
	$(OLDEST)/bin/pip install --quiet --disable-pip-version-check torch==$(TORCH)
	$(OLDEST)/bin/pip install --quiet --disable-pip-version-check -c constraints-oldest.txt -e '.[all,test]' httpx
	OMP_NUM_THREADS=1 $(OLDEST)/bin/pytest -n auto --maxprocesses 4 --dist worksteal

# sdist and wheel, and a check of both where there is no checkout
release:
	$(PYTHON) tools/release.py --torch $(TORCH)

# docs/dependencies.md from what is installed; with a network, known vulnerabilities of the pins
audit: $(TESTS)
	$(BIN)/python tools/dependencies.py --write docs/dependencies.md
	$(BIN)/python tools/dependencies.py --vulnerabilities

# each group of cases in its own process, with limits of memory and time
# FIRST: number of the first case; other numbers are other cases
FIRST := 0
fuzz: $(TESTS)
	PYTHONPATH=tests $(BIN)/python -m fuzz.run --first $(FIRST)

crash: $(TESTS)
	PYTHONPATH=tests OMP_NUM_THREADS=1 $(BIN)/python -m fuzz.crash

# ERASE's published cells with 30 and 50 % of noise, five seeds each, beside the paper's figures
CELLS := method=erase dataset=cora dataset=citeseer rate=0.3 rate=0.5 seed=0 seed=1 seed=2 seed=3 seed=4
reproduce: $(READY)
	$(BIN)/erase bench paper $(CELLS:%=--only %)
	$(BIN)/erase table main out/paper.jsonl

# docs/results.md, and the arithmetic of docs/papers100m.md, from the records in benchmarks/records
results: $(READY)
	$(BIN)/python benchmarks/results.py
	$(BIN)/python benchmarks/papers100m.py --write

# names and descriptions that `erase list` and --help show without importing the registries
catalogue: $(READY)
	$(BIN)/python -m erase.cli.catalogue

# an epoch against the straightforward implementation, and the memory of a fit
bench: $(READY)
	$(BIN)/python benchmarks/speed.py --records out/speed.jsonl

# where an epoch's time goes, beside what it cannot go below
profile: $(READY)
	$(BIN)/python benchmarks/profile_stages.py

docs: $(DOCS)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

lint: $(TESTS)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# torch first and pinned: a loose requirement would fetch gigabytes of GPU libraries on some machines
$(READY): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) torch==$(TORCH)
	$(PIP) -e .
	touch $@

$(TESTS): $(READY)
	$(PIP) -e '.[dev]'
	touch $@

$(DOCS): $(READY)
	$(PIP) -e '.[docs]'
	touch $@

clean:
	rm -rf $(VENV) $(OLDEST) demo site build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
