"""Warm, isolated kernels: where students' notebooks run while they are graded.

    launch.py       starts the warm parent in a sandbox of its own, and says what isolation this machine has
    parent.py       the warm parent: imports what notebooks need, then forks one kernel for each request
    sandbox.py      what a forked kernel gives up before it runs a student's first line
    processes.py    what /proc tells about a kernel's processes: which there are, and how much memory they take
    cgroups.py      the memory of all of a kernel's processes together, where the system counts it for us
    relay.py        carries the bytes of a kernel's channels and counts them; no path of a kernel is looked up twice
    provisioner.py  the seam: a Jupyter kernel provisioner that asks the warm parent for a kernel

parent.py runs inside the sandbox, with sandbox.py and processes.py beside it. Of the course it can import only what
a graded notebook may import (`importable` in its pyproject.toml); of autograder nothing exists there.
"""
