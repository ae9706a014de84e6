# Every target works on a machine that has only python3, pip and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/pip install --quiet --disable-pip-version-check
# torch is pinned everywhere, for the newest and the oldest versions of the rest, too: others bring several GB of GPU packages.
TORCH := torch==2.13.0

.PHONY: demo test seeds mutants oldest newest lint docs dist install-check readme chaos fuzz attack bench clean

$(VENV)/.core: requirements/core.txt pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) --upgrade "setuptools>=77" wheel
	$(PIP) -r requirements/core.txt
	$(PIP) --no-deps --no-build-isolation -e .
	touch $@

$(VENV)/.dev: $(VENV)/.core requirements/dev.txt
	$(PIP) $(TORCH)
	$(PIP) -r requirements/dev.txt
	touch $@

demo: $(VENV)/.core
	$(BIN)/evenroll evaluate cartpole --episodes 500
	$(BIN)/evenroll compare gridworld --method os/mc --method bpg/ois --method ros/mc --method auto/mc --method init+auto/mc --plot demo.png
	$(BIN)/evenroll compare cartpole --method os/mc --method ros/mc --method auto/mc --trials 40 --budget 1024

# Tests start many Pythons. Each would compile all sources anew if the environment kept it from keeping bytecode.
test: $(VENV)/.dev
	PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -n 2 --dist worksteal

# All tests that leave something to chance, under 50 base seeds: docs/testing.md says how long that takes.
seeds: $(VENV)/.dev
	$(BIN)/python -m pytest -n 2 --dist worksteal -m statistical --base-seed 1 --seeds 50 -rf

# Bugs that somebody thought of, and 60 drawn at random, one after another, each in a copy (docs/testing.md).
mutants: $(VENV)/.dev
	$(BIN)/python -m tools.mutants

# All tests with the oldest and with the newest versions that pyproject.toml allows, in environments of their own. Machine
# code is kept there, too: Numba throws away what another version of it has compiled.
ENV = build/$@
ENV_PIP = $(ENV)/bin/pip install --quiet --disable-pip-version-check
ENV_TEST = PYTHONDONTWRITEBYTECODE= NUMBA_CACHE_DIR=$(CURDIR)/$(ENV)/numba $(ENV)/bin/python -m pytest -p no:cacheprovider -n 2 --dist worksteal

oldest:
	$(PYTHON) -m venv --clear $(ENV)
	$(ENV_PIP) $(TORCH)
	$(ENV_PIP) -r requirements/oldest.txt
	$(ENV_PIP) --no-deps -e .
	$(ENV)/bin/pip check
	$(ENV_TEST)

newest:
	$(PYTHON) -m venv --clear $(ENV)
	$(ENV_PIP) $(TORCH)
	$(ENV_PIP) $(TORCH) -e '.[dev]'
	$(ENV)/bin/pip check
	$(ENV_TEST)

lint: $(VENV)/.dev
	$(BIN)/ruff check src tests examples
	$(BIN)/ruff format --check src tests examples
	$(BIN)/mypy

$(VENV)/.docs: $(VENV)/.dev requirements/docs.txt
	$(PIP) -r requirements/docs.txt
	touch $@

docs: $(VENV)/.docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict

# Long proofs, with their measured results in the docs.
chaos: $(VENV)/.dev
	$(BIN)/python tools/chaos.py

# Wheel and sdist of the last commit, built twice and compared byte by byte.
dist: $(VENV)/.core
	$(BIN)/python tools/dist.py

# What `make dist` left, installed by pip alone into clean environments: the wheel, the sdist, and every extra (tools/install_check.py).
install-check: dist $(VENV)/.dev
	$(BIN)/python tools/install_check.py $(TORCH)

# Everything that the README tells people to type, as it stands there, in a fresh clone (tools/readme.py).
readme: $(VENV)/.dev
	$(BIN)/python -m tools.readme $(TORCH)

bench: $(VENV)/.dev
	$(BIN)/evenroll bench

# 10,000 mutated files of every kind that is read (docs/files.md).
fuzz: $(VENV)/.dev
	$(BIN)/python -m tools.fuzz

# Files and calls that ask for too much, lie or want to run code, in children that are watched (docs/files.md).
attack: $(VENV)/.dev
	$(BIN)/python -m tools.attack

clean:
	rm -rf $(VENV) build dist src/*.egg-info demo.png
	find . -name __pycache__ -prune -exec rm -rf {} +
