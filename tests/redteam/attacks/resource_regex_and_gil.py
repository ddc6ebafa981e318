"""One call into C that keeps the interpreter for years.

score: 10
says: did not end within 4 s, not even when it was interrupted
"""

# %% rms-norm
import re
re.match(r"(a+)+$", "a" * 60 + "b")
