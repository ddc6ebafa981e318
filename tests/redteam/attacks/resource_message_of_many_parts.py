"""One message of a hundred parts of 25 MB each: every one is smaller than what a part may be.

score: 15
says: a message of more than 32 MB
also: user
"""

# %% scratch
part = b"x" * 25_000_000
socket = get_ipython().kernel.iopub_socket
get_ipython().kernel.iopub_thread.send_multipart([b"stream", *[part] * 100], copy=False)
import time
time.sleep(2)
