"""A display larger than any message that the grader takes.

score: 15
says: a message of more than 32 MB
"""

# %% scratch
from IPython.display import HTML, display
display(HTML("x" * 40_000_000))
