"""Warm, isolated kernels: where students' notebooks run while they are graded.

    launch.py       starts the warm parent in a sandbox of its own, and says what isolation this machine has
    parent.py       the warm parent: imports what notebooks need, then forks one kernel for each request
    sandbox.py      what a forked kernel gives up before it runs a student's first line
    provisioner.py  the seam: a Jupyter kernel provisioner that asks the warm parent for a kernel

parent.py and sandbox.py run where nothing else of this project exists, and import nothing of it.
"""
