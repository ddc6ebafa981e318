"""The whole submission is a link to another student's.

score: 0
says: could not be read as a notebook
"""

# %% hand in
import shutil
def write(folder, path):
    shutil.rmtree(folder)
    folder.symlink_to(folder.parents[1] / "f_honest_half" / folder.name)
