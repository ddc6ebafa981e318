"""JSON with a number of a million digits, and NaN.

score: 0
says: could not be read as a notebook
"""

# %% hand in
def write(folder, path):
    path.write_text('{"nbformat": ' + "4" * 1_000_000 + ', "cells": NaN}')
