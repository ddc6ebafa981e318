"""JSON of another shape: a list, in which cells are numbers.

score: 0
says: could not be read as a notebook
"""

# %% hand in
def write(folder, path):
    path.write_text('[{"cells": 3}, null]')
