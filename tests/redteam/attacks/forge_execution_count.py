"""The number of a cell, in each message that tells it: HTML, a list, below zero, with a thousand digits.

score: 5
says: LayerNorm: not attempted yet
says: what the cell printed
"""

# %% layer-norm
# wrong LayerNorm
# %% scratch
kernel = get_ipython().kernel
def send(kind, **content):
    kernel.session.send(kernel.iopub_socket, kind, content, parent=kernel.get_parent("shell"))
for count in ("<img src=x onerror=alert(1)>", [[]] * 100_000, {"10": 10}, True, 1.5, 10**1000, -1):
    send("execute_input", code="1", execution_count=count)
    send("execute_result", data={"text/plain": "10.0"}, metadata={}, execution_count=count)
    send("clear_output", wait=True, execution_count=count)
    send("status", execution_state="busy", execution_count=count)
print("what the cell", "printed")
