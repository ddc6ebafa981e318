# What the Makefile offers to instructors and contributors; make student-copy leaves it out.
.PHONY: test test-all check types style labs student-copy grade report bench book screenshots format constraints
.PHONY: with-test with-grade with-bench with-book

help::
	@echo "make test         the quick tests, with every notebook at a small scale: 5 minutes on two cores of 2 GHz"
	@echo "make test-all     the quick tests, then all others, at full scale: 30 minutes"
	@echo "make check        format, lint, spelling, types of the Python and JavaScript code: 1 minute"
	@echo "make lab INSTRUCTOR=1   the same with Formgrader, and with solutions/ and what was handed in"
	@echo "make labs         make the students' labs/ from solutions/; one lab: make labs LAB=lab02_multi_head"
	@echo "make student-copy  the course for students, without solutions, as a folder and a zip in build/"
	@echo "make grade        grade what lies in submitted/ and write feedback/; one lab: make grade LAB=lab02_multi_head"
	@echo "make report       write report/index.html: what the class should be taught again, scores, mistakes, who has stopped"
	@echo "make bench        measure, and write benchmarks/results/"
	@echo "make book         build the website in build/book/html, lectures executed"
	@echo "make screenshots  take the README's pictures in Chromium"
	@echo "make format       clean the notebooks for storing, format and check the code"
	@echo "make constraints  new environment with the newest allowed versions, written to constraints.txt"

with-test with-grade with-bench with-book:
	$(BOOTSTRAP) $(@:with-%=%)

# pytest ends with 5 where none of the files that TESTS names holds a test of that kind.
test: with-test
	@echo "The tests are collected first: about half a minute without a line."
	@$(HERE)/python -m pytest -m "not full" $(TESTS) || [ $$? -eq 5 ]

test-all: test
	@$(HERE)/python -m pytest -m full $(TESTS) || [ $$? -eq 5 ]

# The types take as long as all else together.
check: with-test
	@$(MAKE) --no-print-directory -j2 types style
	@echo "make check: all is well"

types:
	@echo "types of the Python: about a minute ..."
	@$(HERE)/basedpyright --pythonpath $(HERE)/python

style:
	@echo "formatting, lint, notebooks, spelling, then the JavaScript ..."
	@$(HERE)/python -m ruff format --check --quiet .
	@$(HERE)/python -m ruff check --quiet .
	@$(HERE)/python -m headroom clean --check
	@$(HERE)/codespell
	@$(HERE)/python tests/javascript.py

labs: setup
	@$(HERE)/python -m autograder labs $(LAB)

student-copy: setup
	@$(HERE)/python -m autograder student-copy $(TO)

grade: with-grade
	@$(HERE)/python -m autograder grade $(LAB)

report: setup
	@$(HERE)/python -m autograder report

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
