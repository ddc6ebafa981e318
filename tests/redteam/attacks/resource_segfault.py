"""A segmentation fault through ctypes.

score: 15
says: ended the Python process (segmentation fault)
also: user
"""

# %% scratch
import ctypes
ctypes.string_at(0)
