# Every target first sets up .venv when it is missing or out of date, with the extras that it needs of pyproject.toml.
# Another Python: make setup PYTHON=python3.12
PYTHON ?= python3
ifeq ($(OS),Windows_NT)
HERE := .venv/Scripts
else
HERE := .venv/bin
endif
NO_PYTHON := There is no $(PYTHON) here: install Python 3.11 or newer, then run this again.
BOOTSTRAP = @command -v $(PYTHON) >/dev/null || { echo "$(NO_PYTHON)" >&2; exit 1; }; $(PYTHON) bootstrap.py

# Containers often forbid Python to keep what it has compiled. Each process would then compile PyTorch once more.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help setup doctor lab

help::
	@echo "make lab          open the course in JupyterLab"
	@echo "make doctor       say what is wrong with the installation, and how to mend it"
	@echo "make setup        only set up the environment in .venv"

# For instructors and contributors; students do not get it.
-include development.mk

setup:
	$(BOOTSTRAP)

doctor:
	$(BOOTSTRAP) --doctor

lab: setup
	@$(HERE)/python -m headroom lab $(if $(INSTRUCTOR),--instructor)
