# Every target first sets up .venv when it is missing or out of date. Another Python: make setup PYTHON=python3.12
PYTHON ?= python3
ifeq ($(OS),Windows_NT)
HERE := .venv/Scripts
else
HERE := .venv/bin
endif

.PHONY: help setup lab

help::
	@echo "make lab          open the course in JupyterLab"
	@echo "make setup        only set up the environment in .venv"

# For instructors and contributors; students do not get it.
-include development.mk

setup:
	@command -v $(PYTHON) >/dev/null || { echo "There is no $(PYTHON) here: install Python 3.11 or newer, then run this again." >&2; exit 1; }
	@$(PYTHON) bootstrap.py

lab: setup
	@$(HERE)/python -m headroom lab $(if $(INSTRUCTOR),--instructor)
