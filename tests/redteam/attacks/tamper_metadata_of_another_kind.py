"""Metadata of types that nobody expects.

score: 15
says: ✓ LayerNorm
"""

# %% hand in
def change(notebook, cells):
    cells["check-layer-norm"].metadata["nbgrader"] = "yes"
    cells["scratch"].metadata["nbgrader"] = {"grade_id": ["check-layer-norm"], "grade": 7}
    cells["rms-scratch"].metadata["nbgrader"] = {"grade_id": None}
    cells["layer-norm"].metadata |= {"tags": 5, "collapsed": None, "name": ""}
    notebook.metadata["kernelspec"] = {"name": "../../../bin/sh", "display_name": "x", "language": "cobol"}
    notebook.metadata["language_info"] = {"name": "<script>", "file_extension": "/../../x", "pygments_lexer": "no"}
