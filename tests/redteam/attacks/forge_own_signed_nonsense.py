"""Well-signed messages of a shape that no kernel sends: no header, no content, wrong types.

score: 15
says: ✓ LayerNorm
"""

# %% scratch
import json
kernel = get_ipython().kernel
session, socket = kernel.session, kernel.iopub_socket
def raw(*parts):
    parts = [json.dumps(part).encode() for part in parts]
    socket.send_multipart([b"<IDS|MSG>", session.sign(parts), *parts])
head = {"msg_id": "a", "msg_type": "stream", "session": "s", "username": "u", "date": "2020-01-01T00:00:00Z", "version": "5.3"}
parent = kernel.get_parent("shell")["header"]
for kind in ("stream", "execute_result", "display_data", "error", "status", "execute_input", "clear_output", "comm_open", "update_display_data", 7, None):
    for content in ({}, [], None, 3, "text", {"data": 3}, {"data": {"text/plain": 5, 7: []}}, {"name": 1, "text": {}}, {"traceback": 3}, {"execution_state": []}, {"transient": {"display_id": []}, "data": {}, "metadata": 3}):
        try:
            raw(head | {"msg_type": kind}, json.loads(json.dumps(parent, default=str)), {}, content)
        except Exception as error:
            print(type(error))
raw([], [], [], []); raw(head, {}, {}, {}); raw({}, parent and {"msg_id": parent["msg_id"]}, {}, {})
