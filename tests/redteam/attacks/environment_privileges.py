"""Privileges looked for: setuid programs, user namespaces, mounts, a new root, capabilities.

score: 15
says: ✓ RMSNorm
also: user
"""

# %% scratch
import ctypes, os, subprocess
libc = ctypes.CDLL(None, use_errno=True)
print(os.getuid(), os.geteuid(), [line for line in open("/proc/self/status") if line.startswith(("Cap", "NoNewPrivs", "Seccomp"))])
for line in open("/proc/self/status"):
    if line.startswith("Cap") and int(line.split()[1], 16) and not line.startswith("CapBnd"): print("STO" "LEN", line)
if os.geteuid() == 0: print("STO" "LEN", "root")
for flags in (0x10000000, 0x20000, 0x10020000, 0x20000000, 0x40000000, 0x2000000):
    if libc.unshare(flags) == 0: print("STO" "LEN", "unshare", hex(flags))
if libc.mount(b"tmpfs", b"/tmp", b"tmpfs", 0, b"") == 0: print("STO" "LEN", "mount")
if libc.umount2(b"/tmp", 2) == 0: print("STO" "LEN", "umount")
if libc.chroot(b"/tmp") == 0: print("STO" "LEN", "chroot")
for call in (lambda: os.setuid(0), lambda: os.setgid(0), lambda: os.setgroups([0]), lambda: os.mknod("device", 0o60644, os.makedev(8, 0))):
    try:
        call(); print("STO" "LEN", call)
    except OSError as error:
        print("refused:", error)
for command in (["su", "-c", "id"], ["sudo", "-n", "id"], ["unshare", "-Ur", "id"], ["bwrap", "--ro-bind", "/", "/", "id"], ["mount"], ["pkexec", "id"]):
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=2, stdin=subprocess.DEVNULL)
        print(command, done.returncode, done.stderr[:80])
        if "uid=0" in done.stdout: print("STO" "LEN", command)
    except (OSError, subprocess.TimeoutExpired) as error:
        print("refused:", error)
