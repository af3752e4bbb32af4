# hermes_nb: needs Python 3.11 or newer, git and make; everything else is installed into .venv.
#
#   make demo    the main job: a real turn in a notebook, on the embedded model
#   make lab     JupyterLab in the notebooks' folder
#   make test    everything that must pass: style, types, layers, tests, notebooks, a browser, a real model
#   make help    all verbs

PYTHON ?= python3
BIN    := .venv/bin
RUN    := $(BIN)/python

.DEFAULT_GOAL := help
.PHONY: help demo lab model test check docs pictures bench interop differential mutate matrix chromium build clean

help:  ## this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1	\2/p' $(MAKEFILE_LIST) | expand -t 24

# ------------------------------------------------------------------------------------------ environments

.venv/pip.stamp: tools/install.py
	@$(PYTHON) tools/install.py --create .venv
	@touch $@

.venv/demo.stamp: pyproject.toml .venv/pip.stamp
	@$(RUN) tools/install.py --editable '.[local,plot]' --group lab
	@touch $@

.venv/dev.stamp: pyproject.toml .venv/pip.stamp
	@$(RUN) tools/install.py --editable '.[local,plot,docs]' --group dev
	@touch $@ .venv/demo.stamp

# ------------------------------------------------------------------------------------------ for everybody

demo: .venv/demo.stamp model  ## the main job: a turn about a real file, run by a real kernel, shown here
	@$(RUN) tools/demo.py notebooks/01_first_turn.ipynb

lab: .venv/demo.stamp  ## JupyterLab with the notebooks
	@$(BIN)/jupyter lab notebooks

model: .venv/demo.stamp  ## fetch the embedded model, once (478 MB, to the user cache)
	@$(BIN)/hermes-nb model fetch || echo "The embedded model is not there; what follows runs on the scripted provider."

# ------------------------------------------------------------------------------------------ for developers

test: .venv/dev.stamp model chromium check  ## everything that must pass, fast things first
	@$(RUN) -m pytest --nbmake tests notebooks

check: .venv/dev.stamp  ## style, types, layers
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-cache

docs: export NO_MKDOCS_2_WARNING = 1
docs: .venv/dev.stamp  ## the documentation site, notebooks run, into site/
	@$(BIN)/mkdocs build --strict

pictures: .venv/dev.stamp chromium  ## the documentation's pictures of the panel
	@HERMES_NB_PICTURES=docs/images $(RUN) -m pytest -q tests/browser/test_panel_pictures.py

bench: .venv/dev.stamp  ## the programs that measure, one after the other
	@for program in loop clients start span_cost logbook frames panel sweep soak peers; do echo "── $$program"; $(RUN) benchmarks/$$program.py || exit 1; done

interop: .venv/dev.stamp  ## real turns through the servers of other tools
	@$(RUN) -m pytest -m interop tests/interop

differential: .venv/dev.stamp  ## the same scripts through the original, in an environment of its own
	@$(RUN) tools/differential.py

matrix: .venv/pip.stamp  ## the tests with every Python on this machine, and with the oldest dependencies
	@$(RUN) tools/matrix.py

mutate: .venv/dev.stamp  ## change each constant of the policies a little: does a test notice?
	@$(RUN) tools/mutate.py

chromium: .venv/dev.stamp  ## a browser for the panel's tests, from Debian's packages
	@$(RUN) tools/chromium.py

build: .venv/dev.stamp  ## sdist and wheel into dist/
	@$(RUN) -m build --outdir dist .
	@$(BIN)/twine check --strict dist/*

clean:  ## remove the environment and everything that was built (the model stays in the user cache)
	rm -rf .venv .matrix dist site build .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
