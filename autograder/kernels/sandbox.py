"""What a forked kernel gives up before it runs a student's first line: files, network, privileges, resources.

Runs in the forked child while it still has one thread. Two forms, as the machine allows:

- "namespaces": file system, processes, network, IPC and user of its own. What is not there cannot be reached.
- "landlock": the same file system, of which nearly nothing may be opened; processes are seen, and ended by limits and
  by the warm parent. Weaker: the disk has no total, and a process that escapes the parent's eye lives until it returns.

Both drop to an ordinary user, refuse dangerous system calls, and bound memory, processes, processor time, file size.
The second refuses more of them: those that Landlock does not look at.
Each guard says which attack it stops; tests/redteam/ runs each attack, and test_guards.py each one without its guard.
"""

import contextlib
import ctypes
import errno
import os
import resource
import struct
import tempfile
from pathlib import Path

MB = 1 << 20
ELSEWHERE = 500  # processes and threads that the user of an unnamespaced kernel may start besides
# What a kernel may read, as the launcher wrote it down: Python, its libraries, and parts of the course.
READABLE = os.environ.pop("AUTOGRADER_READABLE", "").split(os.pathsep)

_libc = ctypes.CDLL(None, use_errno=True)
NEWNS, NEWUTS, NEWIPC, NEWUSER, NEWPID = 0x00020000, 0x04000000, 0x08000000, 0x10000000, 0x20000000
MNT_DETACH = 2
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_BIND, MS_REC, MS_PRIVATE = 1, 2, 4, 8, 4096, 16384, 1 << 18
SHARED, ANONYMOUS = 1, 32  # of mmap
PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS = 1, 4, 24, 38

# Refused with "operation not permitted": the kernel's less trodden paths, other processes, and what outlives a process.
REFUSED = """
    mount umount2 pivot_root chroot unshare setns fsopen fsconfig fsmount fspick move_mount open_tree mount_setattr
    open_by_handle_at name_to_handle_at bpf perf_event_open userfaultfd io_uring_setup io_uring_enter
    io_uring_register keyctl add_key request_key kexec_load kexec_file_load init_module finit_module delete_module
    ptrace process_vm_readv process_vm_writev pidfd_getfd kcmp reboot swapon swapoff acct quotactl settimeofday
    clock_settime clock_adjtime adjtimex iopl ioperm personality shmget msgget semget mq_open memfd_create
    memfd_secret vmsplice fanotify_init syslog sched_setaffinity setpriority ioprio_set
"""
# Said to be done, and not done, where the first argument names a process or a thread: priorities, which a user may set
# for all of the user's own processes, the grader among them. (ZeroMQ sets those of its threads.)
PRIORITIES = "sched_setscheduler sched_setparam sched_setattr"
# Answered with "no such system call", which programs are prepared for: those newer than what was looked through for the
# lists here, of which libseccomp may not know the names. From 424 on, all processors have the same numbers.
NEWEST = range(450, 512)
# What Landlock does not look at, on the same file system: permissions and dates of any file of the user's, whom honest
# code changes in passing, so that they are said to be done and are not; …
UNDONE = "chmod fchmod fchmodat chown fchown lchown fchownat utime utimes futimesat utimensat"
# … attributes, sockets that lie there, and who uses which file when; and, in its first versions, emptying files.
REFUSED_BESIDE_LANDLOCK = """
    setxattr lsetxattr fsetxattr removexattr lremovexattr fremovexattr connect inotify_init inotify_init1 truncate
    openat2
"""
DATAGRAMS = (2, 3)  # kinds of sockets that reach somebody without `connect`; to Linux the second is the first
OF_FILE_SYSTEMS = (0x66, 0x58)  # groups of ioctl


def call(name: str, *arguments: object) -> int:
    """A function of the C library; OSError where it reports one."""
    result = getattr(_libc, name)(*arguments)
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{name}: {os.strerror(code)}")
    return result


def mount(source: str, target: str, kind: str | None, flags: int, options: str = "") -> None:
    call("mount", source.encode(), target.encode(), kind and kind.encode(), ctypes.c_ulong(flags), options.encode())


def enter(kind: str, run: str, limits: dict[str, int]) -> str:
    """Shut the door behind this process, for good.

    Args:
        kind: "namespaces" or "landlock". For the first, this process is the first one in a PID namespace already.
        run: the kernel's own folder, for its connection file and its sockets.
        limits: `memory_mb`, `disk_mb`, `file_mb`, `processes`, `cpu_s`, and `user`, who to be in place of root.

    Returns:
        the folder to work in.
    """
    # Attack: allocating until the machine has no memory. The kernel that takes it goes first, not the grader.
    Path("/proc/self/oom_score_adj").write_text("1000")
    about = _own_file_system(run, limits) if kind == "namespaces" else None
    own = "/tmp" if kind == "namespaces" else os.path.dirname(run)
    work, home = f"{own}/submission", f"{own}/home"
    for folder in (work, home):
        os.mkdir(folder)
        if os.geteuid() == 0:
            os.chown(folder, limits["user"], limits["user"])
    os.environ |= {name: home for name in ("HOME", "TMPDIR", "IPYTHONDIR", "MPLCONFIGDIR", "JUPYTER_RUNTIME_DIR")}
    tempfile.tempdir = None  # the warm parent's own, which a kernel may not write to, and which would be noted
    _ordinary_user(limits["user"], about)
    # Attack: a kernel that lives on when the grader is killed. (Only now: becoming another user would undo it.)
    call("prctl", PR_SET_PDEATHSIG, 9, 0, 0, 0)
    # Without a namespace all of the user's processes count, and there is room for what else may start meanwhile.
    most = limits["processes"] + (1 if kind == "namespaces" else _threads_of(os.getuid()) + ELSEWHERE)
    _limit(limits, most)
    call("prctl", PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)  # no program runs as root (setuid) any more; Landlock asks for it
    if kind == "landlock":
        _landlock(run, work, home)
    _refuse_system_calls(kind)
    return work


def _own_file_system(run: str, limits: dict[str, int]) -> int:
    """Mounts of its own: an empty /tmp, its own folder and no other under /run, /proc with its own processes only.

    Returns:
        its folder in a /proc that can be written to.
    """
    call("unshare", NEWNS)
    mount("", "/", None, MS_REC | MS_PRIVATE)
    own = os.open(run, os.O_PATH)
    covered = {path: os.open(path, os.O_PATH) for path in READABLE if path.startswith(("/tmp/", "/run/"))}
    # Attacks: filling the disk (what a kernel can write lies in memory, has a size, and vanishes with it); reading or
    # leaving something in the folders of another submission (theirs lie in what is covered here).
    for folder, size in (("/tmp", limits["disk_mb"]), ("/dev/shm", limits["disk_mb"]), ("/run", 1)):
        mount("tmpfs", folder, "tmpfs", MS_NOSUID | MS_NODEV, f"size={size}m,nr_inodes=4096,mode=1777")
    os.mkdir(run)
    mount(f"/proc/self/fd/{own}", run, None, MS_BIND)
    for path, place in covered.items():  # the course itself may lie there
        is_folder = os.path.isdir(f"/proc/self/fd/{place}")
        os.makedirs(path if is_folder else os.path.dirname(path), exist_ok=True)
        if not is_folder:
            Path(path).touch()
        mount(f"/proc/self/fd/{place}", path, None, MS_BIND)
    for folder in (own, *covered.values()):
        os.close(folder)
    # Attacks: killing, reading or stopping the grader and other submissions: no other process exists in here.
    mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC)
    writable = os.open("/proc/self", os.O_PATH)
    # Attack: taking back in which order the system ends processes when memory is short.
    mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC | MS_RDONLY)
    return writable


def mount_folder(run: str, user: int) -> None:
    """Make the folder of one kernel, where it and the grader meet: in memory, too small to be filled with much."""
    os.mkdir(run)
    owner = f",uid={user},gid={user}" if os.geteuid() == 0 else ""
    mount("tmpfs", run, "tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, f"size=1m,nr_inodes=64,mode=700{owner}")


def unmount_folder(run: str) -> None:
    """Take the folder of a kernel that has ended away."""
    call("umount2", run.encode(), MNT_DETACH)
    os.rmdir(run)


def _ordinary_user(instead_of_root: int, about: int | None) -> None:
    """No privileges, over nothing; in a user namespace of its own, so that its processes are counted apart.

    Args:
        about: this process's folder in /proc; None where there is to be no such namespace.
    """
    if os.geteuid() == 0:  # Attack: whatever only root may do; limits on processes do not bind root at all
        os.setgroups([])
        os.setresgid(*3 * [instead_of_root])
        os.setresuid(*3 * [instead_of_root])
        call("prctl", PR_SET_DUMPABLE, 1, 0, 0, 0)  # or /proc/self would belong to root from here on
    if about is not None:
        user, group = os.getuid(), os.getgid()
        call("unshare", NEWUSER)
        for name, text in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
            file = os.open(name, os.O_WRONLY, dir_fd=about)
            os.write(file, text.encode())
            os.close(file)
        os.close(about)
    # Attack: undoing the mounts, or anything else that a capability of the new namespace allows.
    for capability in range(64):
        if _libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) < 0:
            break
    call("capset", struct.pack("Ii", 0x20080522, 0), bytes(24))


def _threads_of(user: int) -> int:
    """How many threads a user has on this machine: without a namespace of their own, a kernel's count among them."""
    count = 0
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has ended meanwhile
            if path.stat().st_uid == user:
                count += len(os.listdir(path / "task"))
    return count


def _limit(limits: dict[str, int], processes: int) -> None:
    """What the kernel's own limits bound; memory is counted from what the warm parent has."""
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines() if ":" in line)
    used = {name: int(status[name].split()[0]) * 1024 for name in ("VmData", "VmSize")}
    memory = limits["memory_mb"] * MB

    def limit(what: int, value: int, hard: int | None = None) -> None:
        most = resource.getrlimit(what)[1]
        bound = [v if most == resource.RLIM_INFINITY else min(v, most) for v in (value, hard or value)]
        resource.setrlimit(what, (bound[0], bound[1]))

    limit(resource.RLIMIT_DATA, used["VmData"] + memory)  # Attack: allocating without end
    limit(resource.RLIMIT_AS, used["VmSize"] + 2 * memory)  # … and as maps of what it may not write to
    limit(resource.RLIMIT_NPROC, processes)  # Attack: a fork bomb. Threads count too
    limit(resource.RLIMIT_FSIZE, limits["file_mb"] * MB)  # Attack: one endless file
    limit(resource.RLIMIT_CPU, limits["cpu_s"], limits["cpu_s"] + 1)  # Attack: processes that compute unseen
    limit(resource.RLIMIT_NOFILE, 256)
    limit(resource.RLIMIT_CORE, 0)  # Attack: gigabytes of core dump, wherever the system puts them
    limit(resource.RLIMIT_MEMLOCK, 0)  # Attack: memory that cannot be swapped out


def _refuse_system_calls(kind: str) -> None:
    """A seccomp filter over all later system calls of this process and of all that it starts."""
    import pyseccomp as seccomp

    refuse = seccomp.ERRNO(errno.EPERM)
    rules = seccomp.SyscallFilter(seccomp.ALLOW)

    def rule(action: int, names: str, *arguments: seccomp.Arg) -> None:
        for name in names.split():
            with contextlib.suppress(OSError):  # a system call that this processor does not have
                rules.add_rule(action, name, *arguments)

    rule(refuse, REFUSED)
    # Attack: a limit for the grader that it is above already.
    rule(refuse, "prlimit64", seccomp.Arg(0, seccomp.NE, 0))
    rule(seccomp.ERRNO(0), PRIORITIES, seccomp.Arg(0, seccomp.NE, 0))
    for number in NEWEST:
        rules.add_rule(seccomp.ERRNO(errno.ENOSYS), number)
    # Attack: new namespaces, in which a process has privileges again. clone3 hides its flags: glibc then uses clone.
    rules.add_rule(seccomp.ERRNO(errno.ENOSYS), "clone3")
    for flag in (NEWNS, NEWUTS, NEWIPC, NEWUSER, NEWPID, 0x02000000, 0x40000000):
        rules.add_rule(refuse, "clone", seccomp.Arg(0, seccomp.MASKED_EQ, flag, flag))
    # Attack: any network, also the machine's own. Not EPERM, at which libzmq ends the process.
    no_socket = seccomp.ERRNO(errno.EOPNOTSUPP)
    rules.add_rule(no_socket, "socket", seccomp.Arg(0, seccomp.NE, 1))
    # Attack: memory that is shared, written and then taken out of the own map: it stays, and no process is seen to have
    # it. What is shared between processes is a file in /dev/shm, which has a size.
    rules.add_rule(refuse, "mmap", seccomp.Arg(3, seccomp.MASKED_EQ, SHARED | ANONYMOUS, SHARED | ANONYMOUS))
    # Attack: typing into the terminal of whoever grades.
    rules.add_rule(refuse, "ioctl", seccomp.Arg(1, seccomp.MASKED_EQ, 0xFFFFFFFF, 0x5412))
    if kind == "landlock":
        rule(seccomp.ERRNO(0), UNDONE)
        rule(refuse, REFUSED_BESIDE_LANDLOCK)
        for number in DATAGRAMS:  # Attack: a message to a socket's path
            rule(no_socket, "socket socketpair", seccomp.Arg(1, seccomp.MASKED_EQ, 0xF, number))
        # Attack: emptying what may only be read.
        read_only = (os.O_ACCMODE | os.O_TRUNC, os.O_RDONLY | os.O_TRUNC)
        rule(refuse, "open", seccomp.Arg(1, seccomp.MASKED_EQ, *read_only))
        rule(refuse, "openat", seccomp.Arg(2, seccomp.MASKED_EQ, *read_only))
        for group in OF_FILE_SYSTEMS:  # Attack: flags of files that may only be read, such as for backups
            rule(refuse, "ioctl", seccomp.Arg(1, seccomp.MASKED_EQ, 0xFF00, group << 8))
    rules.load()


# --- Landlock: where there are no namespaces ---------------------------------------------------------------------

_EXECUTE, _WRITE, _READ, _LIST = 1, 2, 4, 8
_ALL = (1 << 13) - 1  # what the first version of Landlock knows
_REFER, _TRUNCATE, _IOCTL = 1 << 13, 1 << 14, 1 << 15
_ON_FILES = _EXECUTE | _WRITE | _READ | _TRUNCATE | _IOCTL
_MAKE_DEVICES = 1 << 6 | 1 << 11


def _landlock(*own: str) -> None:
    """Refuse to open anything but Python, this kernel's own folders and the harmless devices."""
    version = _libc.syscall(444, None, ctypes.c_size_t(0), 1)
    handled = _ALL | (_REFER if version >= 2 else 0) | (_TRUNCATE if version >= 3 else 0)
    network = 3 if version >= 4 else 0  # all of TCP
    scoped = 3 if version >= 6 else 0  # signals to, and abstract sockets of, processes outside
    fields = struct.pack("QQQ", handled, network, scoped)[: 8 if version < 4 else 16 if version < 6 else 24]
    rules = call("syscall", 444, fields, ctypes.c_size_t(len(fields)), 0)
    read = _EXECUTE | _READ | _LIST
    everything = handled & ~_MAKE_DEVICES
    allowed = dict.fromkeys(READABLE, read) | dict.fromkeys(("/proc", "/sys/devices/system/cpu"), _READ | _LIST)
    allowed |= dict.fromkeys(("/dev/urandom", "/dev/random"), _READ) | {"/dev/null": _READ | _WRITE}
    allowed |= dict.fromkeys(own, everything)
    for path, rights in allowed.items():
        if not os.path.exists(path):
            continue
        place = os.open(path, os.O_PATH | os.O_CLOEXEC)
        rights &= handled if os.path.isdir(path) else handled & _ON_FILES
        call("syscall", 445, rules, 1, struct.pack("=Qi", rights, place), 0)
        os.close(place)
    call("syscall", 446, rules, 0)
    os.close(rules)
