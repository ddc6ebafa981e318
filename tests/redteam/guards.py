"""The guards of sandbox.py: how each is taken out, and the attack that succeeds without it."""

from dataclasses import dataclass, field
from pathlib import Path

from tests.redteam.sandboxes import BOTH


@dataclass
class Guard:
    """What is taken out of sandbox.py, and the attack that it stops, which prints STOLEN where it succeeds.

    Args:
        without: pairs of a text that is there exactly once, and of what comes in its place.
        code: run in a kernel.
        beside: run before that in another kernel, which was there first and goes on.
        root: true for what only matters where root grades, false for what only matters where not.
        stays: whether the kernel must still be there after the attack.
    """

    name: str
    without: list[tuple[str, str]]
    code: str
    beside: str = ""
    kinds: tuple[str, ...] = ("namespaces",)
    root: bool | None = None
    limits: dict[str, int] = field(default_factory=dict)


STATUS = "about = dict(line.split(':', 1) for line in open('/proc/self/status') if ':' in line)\n"
WRITE = """
import os, signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
def fill(folder, files, each):
    wrote = 0
    try:
        for i in range(files):
            with open(f"{folder}/redteam_{i}", "wb") as file:
                if each: file.write(bytes(each)); file.flush()
            wrote += each or 1
    except OSError as error:
        print(error)
    for i in range(files):
        try: os.remove(f"{folder}/redteam_{i}")
        except OSError: break
    return wrote
"""
THREADS = """
import threading
threading.stack_size(1 << 18)
end = threading.Event()
def start(count):  # to a limit on processes a thread is one, and it begins sooner
    for _ in range(count): threading.Thread(target=end.wait, daemon=True).start()
"""
SYSCALL = """
import ctypes, errno, os, struct
libc = ctypes.CDLL(None, use_errno=True)
def call(number, *values):
    ctypes.set_errno(0)
    result = libc.syscall(number, *values)
    return result, ctypes.get_errno()
"""

CHILD = """
import os, resource, time
if not (child := os.fork()): time.sleep(60); os._exit(0)
"""

GUARDS = [
    Guard(
        "goes first when memory is short",
        [('    Path("/proc/self/oom_score_adj").write_text("1000")\n', "")],
        "if open('/proc/self/oom_score_adj').read().strip() != '1000': print('STO' 'LEN')",
        kinds=BOTH,
    ),
    Guard(
        "not root",
        [
            ("        os.setresuid(*3 * [instead_of_root])\n", ""),
            ('_ordinary_user(limits["user"], about)', '_ordinary_user(limits["user"], None)'),
            ('    call("capset", struct.pack("Ii", 0x20080522, 0), bytes(24))\n', ""),
        ],
        "import os\nif 0 in (os.getuid(), os.geteuid()): print('STO' 'LEN')",
        root=True,
    ),
    Guard(
        "not in root's group",
        [("        os.setresgid(*3 * [instead_of_root])\n", "")],
        "import os\nif 0 in (os.getgid(), os.getegid()): print('STO' 'LEN')",
        root=True,
    ),
    Guard(
        "in no further groups",
        [("        os.setgroups([])\n", "")],
        "import os\nprint(os.getgroups())\nif os.getgroups(): print('STO' 'LEN')",
        root=True,
    ),
    Guard(
        "processes counted apart",
        [('_ordinary_user(limits["user"], about)', '_ordinary_user(limits["user"], None)')],
        THREADS + "try: start(60)\nexcept RuntimeError as error: print('STO' 'LEN', error)",
        beside=THREADS + "start(80)",
        limits={"processes": 100, "memory_mb": 2000},
    ),
    Guard(
        "no capabilities within reach",
        [("    for capability in range(64):\n", "    for capability in range(0):\n")],
        STATUS + "print(about['CapBnd'])\nif int(about['CapBnd'], 16): print('STO' 'LEN')",
    ),
    Guard(
        "no capabilities",
        [('    call("capset", struct.pack("Ii", 0x20080522, 0), bytes(24))\n', "")],
        STATUS + "if int(about['CapEff'], 16): print('STO' 'LEN')",
    ),
    Guard(
        "private memory",
        [('    limit(resource.RLIMIT_DATA, used["VmData"] + memory)', "    pass")],
        "kept = bytearray(830_000_000)\nprint('STO' 'LEN')",
        kinds=BOTH,
        limits={"memory_mb": 800},
    ),
    Guard(
        "maps",
        [('    limit(resource.RLIMIT_AS, used["VmSize"] + 2 * memory)', "    pass")],
        "import mmap\n"
        "kept = mmap.mmap(-1, 900_000_000, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ)\n"
        "print('STO' 'LEN')",
        kinds=BOTH,
    ),
    Guard(
        "shared memory that no process shows",
        [
            (
                '    rules.add_rule(refuse, "mmap", '
                "seccomp.Arg(3, seccomp.MASKED_EQ, SHARED | ANONYMOUS, SHARED | ANONYMOUS))\n",
                "",
            )
        ],
        "import mmap\nfor _ in range(2):\n"
        "    kept = mmap.mmap(-1, 4096)\n    kept.write(b'x')\n    kept.madvise(mmap.MADV_DONTNEED)\n"
        "print('STO' 'LEN')",
        kinds=BOTH,
    ),
    Guard(
        "goes first for good",
        [("MS_NOEXEC | MS_RDONLY)", "MS_NOEXEC)")],
        "import os\n"
        "for process in ('self', '1'):\n"
        "    try: open(f'/proc/{process}/oom_score_adj', 'w').write('0')\n"
        "    except OSError as error: print(error)\n"
        "if open('/proc/self/oom_score_adj').read().strip() != '1000': print('STO' 'LEN')",
    ),
    Guard(
        "processes",
        [("    limit(resource.RLIMIT_NPROC, processes)", "    pass")],
        "import os, time\nfor _ in range(40):\n    if not os.fork(): time.sleep(60); os._exit(0)\nprint('STO' 'LEN')",
    ),
    Guard(
        "size of a file",
        [('    limit(resource.RLIMIT_FSIZE, limits["file_mb"] * MB)', "    pass")],
        WRITE + "if fill('.', 1, 12_000_000) > 10_000_000: print('STO' 'LEN')",
        kinds=BOTH,
        limits={"memory_mb": 1000},
    ),
    Guard(
        "processor time",
        [('    limit(resource.RLIMIT_CPU, limits["cpu_s"], limits["cpu_s"] + 1)', "    pass")],
        "import time, signal\n"
        "signal.signal(signal.SIGXCPU, signal.SIG_IGN)\n"
        "start = time.process_time()\n"
        "while time.process_time() - start < 2.2: pass\n"
        "print('STO' 'LEN')",
        kinds=BOTH,
        limits={"cpu_s": 1},
    ),
    Guard(
        "open files",
        [("    limit(resource.RLIMIT_NOFILE, 256)\n", "")],
        "kept = [open('/dev/null') for _ in range(400)]\nprint('STO' 'LEN')",
        kinds=BOTH,
    ),
    Guard(
        "core dumps",
        [("    limit(resource.RLIMIT_CORE, 0)", "    pass")],
        "import resource\nif resource.getrlimit(resource.RLIMIT_CORE)[1]: print('STO' 'LEN')",
        kinds=BOTH,
    ),
    Guard(
        "locked memory",
        [("    limit(resource.RLIMIT_MEMLOCK, 0)", "    pass")],
        "import mmap, ctypes\n"
        "block = mmap.mmap(-1, 65536, flags=mmap.MAP_PRIVATE)\n"
        "at = ctypes.addressof(ctypes.c_char.from_buffer(block))\n"
        "if ctypes.CDLL(None).mlock(ctypes.c_void_p(at), 65536) == 0: print('STO' 'LEN')",
        kinds=BOTH,
    ),
    Guard(
        "system calls",
        [("    rule(refuse, REFUSED)\n", "")],
        SYSCALL
        + """
import pyseccomp, sandbox
refused = 0
for name in sandbox.REFUSED.split():
    number = pyseccomp.resolve_syscall(pyseccomp.Arch.NATIVE, name)
    if number >= 0:
        result, error = call(number, *[ctypes.c_long(-1)] * 6)
        if error != errno.EPERM: print('STO' 'LEN', name, result, errno.errorcode.get(error))
        else: refused += 1
print(refused, "refused")
""",
        kinds=BOTH,
    ),
    Guard(
        "memory in a file without a name",
        [(" memfd_create\n", "\n")],
        "import os\nos.write(os.memfd_create('kept'), b'x')\nprint('STO' 'LEN')",
        kinds=BOTH,
    ),
    Guard(
        "the newest system calls",
        [("        rules.add_rule(seccomp.ERRNO(errno.ENOSYS), number)\n", "        pass\n")],
        SYSCALL
        + """
for number in range(450, 512):
    result, error = call(number, *[ctypes.c_long(-1)] * 6)
    if error != errno.ENOSYS: print('STO' 'LEN', number, errno.errorcode.get(error))
""",
        kinds=BOTH,
    ),
    Guard(
        "limits of other processes",
        [('    rule(refuse, "prlimit64", seccomp.Arg(0, seccomp.NE, 0))\n', "")],
        CHILD + "resource.prlimit(child, resource.RLIMIT_NOFILE, (9, 9))\nprint('STO' 'LEN')",
        kinds=BOTH,
    ),
    Guard(
        "priorities of other processes",
        [("    rule(seccomp.ERRNO(0), PRIORITIES, seccomp.Arg(0, seccomp.NE, 0))\n", "")],
        CHILD + "os.sched_setscheduler(child, os.SCHED_BATCH, os.sched_param(0))\n"
        "if os.sched_getscheduler(child) == os.SCHED_BATCH: print('STO' 'LEN')",
        kinds=BOTH,
    ),
    Guard(
        "niceness, processors and disk of other processes",
        [(" sched_setaffinity setpriority ioprio_set\n", "\n")],
        CHILD
        + SYSCALL
        + """
import pyseccomp
for name, *values in (
    ("setpriority", os.PRIO_PROCESS, child, 19),
    ("sched_setaffinity", child, 8, bytes(8 * [255])),
    ("ioprio_set", 1, child, 3 << 13),
):
    result, _ = call(pyseccomp.resolve_syscall(pyseccomp.Arch.NATIVE, name), *values)
    if result == 0: print('STO' 'LEN', name)
""",
        kinds=BOTH,
    ),
    Guard(
        "what Landlock does not look at",
        [("        rule(refuse, REFUSED_BESIDE_LANDLOCK)\n", "")],
        SYSCALL
        + """
import pyseccomp, sandbox
for name in sandbox.REFUSED_BESIDE_LANDLOCK.split():
    number = pyseccomp.resolve_syscall(pyseccomp.Arch.NATIVE, name)
    if number >= 0:
        result, error = call(number, *[ctypes.c_long(-1)] * 6)
        if error != errno.EPERM: print('STO' 'LEN', name, result, errno.errorcode.get(error))
""",
        kinds=("landlock",),
    ),
    Guard(
        "emptying what may be read",
        [
            ('        rule(refuse, "open", seccomp.Arg(1, seccomp.MASKED_EQ, *read_only))\n', ""),
            ('        rule(refuse, "openat", seccomp.Arg(2, seccomp.MASKED_EQ, *read_only))\n', ""),
        ],
        "import os\nwith open('mine', 'w') as file: file.write('x')\nos.open('mine', os.O_RDONLY | os.O_TRUNC)\n"
        "if not os.path.getsize('mine'): print('STO' 'LEN')",
        kinds=("landlock",),
    ),
    Guard(
        "flags of files",
        [
            (
                '            rule(refuse, "ioctl", seccomp.Arg(1, seccomp.MASKED_EQ, 0xFF00, group << 8))\n',
                "            pass\n",
            )
        ],
        "import errno, fcntl\n"
        "for request in (0x80086601, 0x801C581F):  # which ask for them; to set them is in the same groups\n"
        "    try: fcntl.ioctl(open('/usr/bin/env'), request, bytes(28)); print('STO' 'LEN')\n"
        "    except OSError as error:\n"
        "        if error.errno != errno.EPERM: print('STO' 'LEN', error)",
        kinds=("landlock",),
    ),
    Guard(
        "new namespaces by clone3",
        [('    rules.add_rule(seccomp.ERRNO(errno.ENOSYS), "clone3")\n', "")],
        SYSCALL
        + "block = struct.pack('11Q', 0x10000000, 0, 0, 0, 17, 0, 0, 0, 0, 0, 0)\n"
        + "pid, error = call(435, block, ctypes.c_size_t(88))\n"
        + "if pid == 0: os._exit(0)\n"
        + "print(pid, error)\n"
        + "if pid > 0: print('STO' 'LEN')",
        kinds=BOTH,
    ),
    Guard(
        "new namespaces by clone",
        [
            (
                '        rules.add_rule(refuse, "clone", seccomp.Arg(0, seccomp.MASKED_EQ, flag, flag))\n',
                "        pass\n",
            )
        ],
        SYSCALL
        + "pid, error = call({'x86_64': 56, 'aarch64': 220}[os.uname().machine], 0x10000011, 0, 0, 0, 0)\n"
        + "if pid == 0: os._exit(0)\n"
        + "print(pid, error)\n"
        + "if pid > 0: print('STO' 'LEN')",
        kinds=BOTH,
    ),
    Guard(
        "sockets",
        [('    rules.add_rule(no_socket, "socket", seccomp.Arg(0, seccomp.NE, 1))\n', "")],
        "import socket\n"
        "for family in (socket.AF_INET, socket.AF_INET6, socket.AF_NETLINK):\n"
        "    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):\n"
        "        try: print('STO' 'LEN', socket.socket(family, kind))\n"
        "        except OSError as error: print(error)",
        kinds=BOTH,
    ),
    Guard(
        "typing into a terminal",
        [('    rules.add_rule(refuse, "ioctl", seccomp.Arg(1, seccomp.MASKED_EQ, 0xFFFFFFFF, 0x5412))\n', "")],
        SYSCALL
        + "for request in (0x5412, 0x5412 | 7 << 32):\n"
        + "    number = {'x86_64': 16, 'aarch64': 29}[os.uname().machine]\n"
        + "    result, error = call(number, ctypes.c_long(0), ctypes.c_long(request), b'x')\n"
        + "    if error != errno.EPERM: print('STO' 'LEN', errno.errorcode.get(error))",
        kinds=BOTH,
    ),
    Guard(
        "the whole filter",
        [("    _refuse_system_calls(kind)\n    return work\n", "    return work\n")],
        SYSCALL
        + "if not (pid := os.fork()): os._exit(7 if libc.unshare(0x10000000) == 0 else 0)\n"
        + "if os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7: print('STO' 'LEN')",
        kinds=BOTH,
    ),
    Guard(
        "size of the disk",
        [('f"size={size}m,nr_inodes=4096,mode=1777"', '"nr_inodes=4096,mode=1777"')],
        WRITE
        + "for place in ('.', '/tmp', '/dev/shm', '/run'):\n"
        + "    if (wrote := fill(place, 10, 6_000_000)) > 40_000_000: print('STO' 'LEN', place, wrote)",
    ),
    Guard(
        "number of files",
        [('f"size={size}m,nr_inodes=4096,mode=1777"', 'f"size={size}m,mode=1777"')],
        WRITE + "if fill('.', 4500, 0) > 4200: print('STO' 'LEN')",
        limits={"disk_mb": 64},
    ),
    Guard(
        "no way to other kernels' sockets",
        [
            (', ("/run", 1)):', "):"),
            ("    os.mkdir(run)\n    mount(f", "    mount(f"),
        ],
        "import glob, os\n"
        "found = glob.glob('/run/*/connection.json')\n"
        "print(found)\n"
        "if len([path for path in found if open(path).read()]) > 1: print('STO' 'LEN')",
        beside="1",
    ),
    Guard(
        "no sight of other processes",
        [
            ('    mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC)\n', ""),
            ('    mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC | MS_RDONLY)\n', ""),
        ],
        "import os\n"
        "found = [open(f'/proc/{pid}/cmdline').read() for pid in os.listdir('/proc') if pid.isdigit()]\n"
        "if len(found) > 1: print('STO' 'LEN', found)",
        beside="1",
    ),
    Guard(
        "nothing but Python may be opened",
        [("        _landlock(run, work, home)\n", "        pass\n")],
        f"import os\nprint('STO' 'LEN', open({str(Path(__file__).resolve())!r}).read(20), os.listdir('/'))",
        kinds=("landlock",),
    ),
    Guard(
        "nothing is written elsewhere",
        [("        _landlock(run, work, home)\n", "        pass\n")],
        "import os\nopen('/tmp/redteam_guard', 'w')\nos.remove('/tmp/redteam_guard')\nprint('STO' 'LEN')",
        kinds=("landlock",),
    ),
]
