"""Well-signed messages whose header, parent, metadata or content is nested deeper than Python can follow.

score: 15
says: This cell left the Python process in disorder.
"""

# %% scratch
import json
kernel = get_ipython().kernel
session, socket = kernel.session, kernel.iopub_socket
deep = b"[" * 200_000 + b"]" * 200_000
whole = [session.msg_header("stream"), kernel.get_parent("shell")["header"], {}, {"name": "stdout", "text": "x"}]
for i in range(4):
    parts = [json.dumps(part, default=str).encode() for part in whole]
    parts[i] = deep
    socket.send_multipart([b"<IDS|MSG>", session.sign(parts), *parts])
