"""The known mistakes: what each is called, what it does, and how to switch some of them on in a whole model.

What is said of a mistake stands once, in a file of this folder for each thing that learners write: its title, and a
sentence on what the wrong code does. Lectures, widgets and the grader's exercises take it from there, by a name such
as `layer_norm.no_root`.
"""

from headroom.mistakes.catalogue import Fact, fact, taught
from headroom.mistakes.switches import MISTAKES, Switch, broken

__all__ = ["MISTAKES", "Fact", "Switch", "broken", "fact", "taught"]
