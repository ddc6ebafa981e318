"""A search that would take years, inside one call into C.

score: 10
says: did not end within
says: and was stopped
"""

# %% rms-norm
import re
re.match(r"(a+)+$", "a" * 60 + "b")
