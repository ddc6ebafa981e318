"""Diagnosis by search: which small change makes the right answer do exactly what the student's code did?

An exercise gives its right answer once more as `steps`: a plain function in the words of `vocabulary`. `dataflow` reads
it into terms, `rules` make small changes of them (`edits`), `search` finds those that agree in all cases, gradients
included, and `wording` says what they do. Nothing here knows of any exercise.
"""

from autograder.diagnosis.dataflow import bound, inputs, read
from autograder.diagnosis.search import KEY, Change, Observed, explain

__all__ = ["KEY", "Change", "Observed", "bound", "explain", "inputs", "read"]
