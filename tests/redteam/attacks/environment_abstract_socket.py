"""An abstract socket, which has no file: open for others, and left.

score: 15
says: ✓ RMSNorm
"""

# %% scratch
import socket
server = socket.socket(socket.AF_UNIX)
try:
    server.bind("\0redteam-abstract"); server.listen()
    print("bound")
except OSError as error:
    print("refused:", error)
