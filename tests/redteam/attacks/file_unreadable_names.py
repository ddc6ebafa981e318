"""Names beside the notebook with quotes, newlines, dots, other scripts and bytes that are no text.

score: 15
says: ✓ LayerNorm
"""

# %% hand in
import os
def write(folder, path):
    for name in ("a\nb.py", "'\"; rm -rf ~;.txt", "..hidden", "Überprüfung 数据.ipynb.txt", "-rf", "$(touch redteam)", "\x1b[2J"):
        (folder / name).write_text("x")
    with open(os.fsencode(folder) + b"/\xff\xfe", "w") as file: file.write("x")
