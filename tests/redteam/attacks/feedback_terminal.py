"""Terminal escapes: a cleared screen, a title, a link, and a bell.

score: 15
says: ✓ LayerNorm
"""

# %% scratch
import sys
print("\x1b[2J\x1b]0;taken over\x07\x1b]8;;javascript:alert(1)\x07press\x1b]8;;\x07 \x9b31m \x00 \x1bP+q\x1b\\")
sys.stderr.write("\x1b[31m<script>alert(1)</script>\x1b[0m")
raise ValueError("\x1b[31m<img src=x onerror=alert(1)>\x1b]0;x\x07")
