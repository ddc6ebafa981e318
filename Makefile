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

.PHONY: help setup doctor lab test test-all check types style labs grade bench book screenshots format constraints
.PHONY: with-test with-grade with-bench with-book

help:
	@echo "make lab          open the course in JupyterLab"
	@echo "make test         the quick tests, with every notebook at a small scale: about 7 minutes on two cores"
	@echo "make test-all     the quick tests, then all others, at full scale: 50 minutes"
	@echo "make check        format, lint, spelling, types of the Python and JavaScript code"
	@echo "make doctor       say what is wrong with the installation, and how to mend it"
	@echo "make setup        only set up the environment in .venv"
	@echo "make labs         make the students' labs/ from solutions/"
	@echo "make grade        grade what lies in submitted/ and write feedback/; one lab: make grade LAB=lab02_multi_head"
	@echo "make bench        measure, and write benchmarks/results/"
	@echo "make book         build the website in build/book/html, lectures executed"
	@echo "make screenshots  take the README's pictures in Chromium"
	@echo "make format       clean the notebooks for storing, format and check the code"
	@echo "make constraints  new environment with the newest allowed versions, written to constraints.txt"

setup:
	$(BOOTSTRAP)

with-test with-grade with-bench with-book:
	$(BOOTSTRAP) $(@:with-%=%)

doctor:
	$(BOOTSTRAP) --doctor

lab: setup
	@$(HERE)/python -m headroom lab

# pytest ends with 5 where none of the files that TESTS names holds a test of that kind.
test: with-test
	@$(HERE)/python -m pytest -m "not full" $(TESTS) || [ $$? -eq 5 ]

test-all: test
	@$(HERE)/python -m pytest -m full $(TESTS) || [ $$? -eq 5 ]

# The types take as long as all else together.
check: with-test
	@$(MAKE) --no-print-directory -j2 types style

types:
	@$(HERE)/basedpyright --pythonpath $(HERE)/python

style:
	@$(HERE)/python -m ruff format --check --quiet .
	@$(HERE)/python -m ruff check --quiet .
	@$(HERE)/python -m headroom clean --check
	@$(HERE)/codespell
	@$(HERE)/python tests/javascript.py

labs: setup
	@$(HERE)/python -m autograder labs

grade: with-grade
	@$(HERE)/python -m autograder grade $(LAB)

bench: with-bench
	@for file in benchmarks/*.py; do echo "$$file"; $(HERE)/python $$file || exit 1; done

book: with-book
	@$(HERE)/python -m website.build

screenshots: with-test
	@$(HERE)/python -m tests.screenshots

format: with-test
	@$(HERE)/python -m headroom clean
	@$(HERE)/python -m ruff format .
	@$(HERE)/python -m ruff check --fix .

constraints:
	$(BOOTSTRAP) --renew
