"""The notebook is a link to another student's.

score: 0
says: could not be read as a notebook
also: quick
"""

# %% hand in
def write(folder, path):
    path.unlink()
    path.symlink_to("../../f_honest_half/lab04_layer_norm/layer_norm.ipynb")
