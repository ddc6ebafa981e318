"""Scripts in Markdown cells, raw cells, attachments, and in the answer in one's own words.

score: 15
says: ✓ LayerNorm
"""

# %% hand in
from nbformat.v4 import new_markdown_cell, new_raw_cell
def change(notebook, cells):
    text = "<script>alert(1)</script> [x](javascript:alert(1)) <img src=x onerror=alert(1)> ![x](attachment:x.svg)\n\n<svg onload=alert(1)>\n\n`</code><script>alert(1)</script>`\n\n```\n</pre><script>alert(1)</script>\n```\n"
    cells["prose-answer"].source = text
    notebook.cells.insert(0, new_markdown_cell(text, attachments={"x.svg": {"image/svg+xml": "<svg onload=alert(1)>"}}))
    notebook.cells.insert(1, new_raw_cell(text))
    cells["title"].source = text
