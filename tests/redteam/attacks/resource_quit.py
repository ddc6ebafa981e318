"""exit(), quit, SystemExit and a kernel that is asked to shut down.

score: 0
says: ended the Python process
"""

# %% scratch
get_ipython().kernel.do_shutdown(False)
exit
quit()
raise SystemExit(0)
