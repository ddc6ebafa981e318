"""What plugs into nbgrader, by import strings in nbgrader_config.py.

`intake` bounds what of a hand-in is looked at, and `unit` is the process in which that, and all that follows, is done
for one submission; by `turns`, graders at the same time take it up one after the other. `submission` reads it and puts
the instructor's cells back, `execute` has its cells run (`kernel`, `running`) and the checks judged outside of the
kernel (`messenger`, `account`), `grades` writes what the judge said into the gradebook. `feedback` makes the pages, of
what `markup` lets through. `labs` makes the students' notebooks from solutions/, `grading` is the round behind
`make grade`.
"""
