"""Widget state, a comm opened by hand, and a display that is changed afterwards.

score: 15
says: ✓ LayerNorm
"""

# %% scratch
from IPython.display import display, update_display, clear_output
display("first", display_id="x")
kernel = get_ipython().kernel
for kind in ("comm_open", "comm_msg", "comm_close"):
    kernel.session.send(kernel.iopub_socket, kind, {"comm_id": "1", "target_name": "jupyter.widget", "data": {"state": {"_view_module": "//evil"}}}, parent=kernel.get_parent("shell"))
display({"application/vnd.jupyter.widget-view+json": {"model_id": "1", "version_major": 2}, "text/plain": "w"}, raw=True)
# %% rms-scratch
update_display("changed", display_id="x")
clear_output(wait=True)
get_ipython().set_next_input("print('payload')", replace=True)
get_ipython().run_line_magic("load_ext", "autoreload") if False else None
