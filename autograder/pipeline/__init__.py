"""What plugs into nbgrader, by import strings in nbgrader_config.py.

`submission` reads what students hand in and puts the instructor's cells back, `execute` runs their cells and has the
checks judged outside of the kernel, `grades` writes what the judge said into the gradebook. `labs` makes the students'
notebooks from solutions/, `grading` is the round behind `make grade`.
"""
