"""Markdown, HTML, colours and code that converters take minutes for, in the answer and in outputs.

score: 15
says: ✓ LayerNorm
says: characters are left out
says: This is shown as plain text
"""

# %% scratch
from IPython.display import HTML, Markdown, display
display(HTML("<b>" * 20_000))
display(HTML("<p " + " ".join(f"a{i}=1" for i in range(60_000)) + ">x"))
display(HTML("".join(f"<b title={i}>" for i in range(5_000)) + "<p>" * 5_000))
display(Markdown("\\begin{a}" * 30_000))
print("\x1b[m" * 30_000)
# %% rms-scratch
# """ a.a.a.
# %% hand in
def change(notebook, cells):
    cells["prose-answer"].source = "\\begin{a}" * 30_000
    cells["rms-scratch"].source = "'''" + "a." * 40_000 + " \n" * 40_000 + "'''"
