"""What the exercises share that mend a broken program (lab 8).

Each program comes with two slips, and earns nothing until one of them is mended. The two are on the exercise's list
like every other mistake, but they are named by what one sees of them, not by their line: finding that is the exercise.
What students are given stands in the lab's notebook.
"""

from autograder.exercise import Criterion
from autograder.exercises.known import overwritten

KEPT = Criterion("contract", "the tensors that you are given stay as they were, float32 stays float32", 0.0)
OVERWRITTEN = overwritten(topic="sequence_loss")
