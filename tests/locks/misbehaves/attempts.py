"""Ways out of a node: system calls, files and sockets that a program in a node must not be able to use."""

import ctypes
import os
import platform
import resource
import socket

LIBC = ctypes.CDLL(None, use_errno=True)

# Numbers of system calls, which differ between the architectures.
IS_ARM = platform.machine() == "aarch64"
CALLS = {
    "mount": 40 if IS_ARM else 165,
    "unshare": 97 if IS_ARM else 272,
    "setns": 268 if IS_ARM else 308,
    "bpf": 280 if IS_ARM else 321,
    "perf_event_open": 241 if IS_ARM else 298,
    "userfaultfd": 282 if IS_ARM else 323,
    "add_key": 217 if IS_ARM else 248,
    "clock_settime": 112 if IS_ARM else 227,
    "chroot": 51 if IS_ARM else 161,
    "sethostname": 161 if IS_ARM else 170,
    "ptrace": 117 if IS_ARM else 101,
    "io_uring_setup": 425,
    "open_tree": 428,
    "fsopen": 430,
}


def called(name, *args):
    """Whether the kernel carries out a call: a refusal of its arguments would come later than one of the call itself."""
    ctypes.set_errno(0)
    return LIBC.syscall(CALLS[name], *args) >= 0


def raise_the_limit_of_files():
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def opened(path, flags=os.O_RDONLY):
    try:
        descriptor = os.open(path, flags | os.O_NONBLOCK)
        if flags == os.O_RDONLY:
            return bool(os.read(descriptor, 1))
        return True
    except OSError:
        return False


def made(family, kind=socket.SOCK_STREAM):
    try:
        socket.socket(family, kind).close()
        return True
    except OSError:
        return False


def node_made():
    try:
        os.mknod("/tmp/disk", 0o060600, os.makedev(254, 0))
        return True
    except OSError:
        return False


def ways():
    """The name of each way, and whether it is open."""
    buffer = ctypes.create_string_buffer(256)
    yield "mount", called("mount", b"none", b"/tmp", b"tmpfs", 0, None)
    yield "new user namespace", called("unshare", 0x10000000)
    yield "new network", called("unshare", 0x40000000)
    own = os.open("/proc/self/ns/net", os.O_RDONLY)
    yield "setns", called("setns", own, 0)
    yield "bpf", called("bpf", 0, buffer, 72)
    yield "performance counters", called("perf_event_open", buffer, 0, -1, -1, 0)
    yield "userfaultfd", called("userfaultfd", 0)
    yield "keys", called("add_key", b"user", b"x", b"x", 1, -3)
    yield "the time of day", called("clock_settime", 0, (ctypes.c_long * 2)(1_800_000_000, 0))
    yield "chroot", called("chroot", b"/tmp")
    yield "the name of the host", called("sethostname", b"x", 1)
    yield "tracing the agent", called("ptrace", 16, 1, None, None)
    yield "io_uring", called("io_uring_setup", 4, buffer)
    yield "open_tree", called("open_tree", -100, b"/", 1)
    yield "fsopen", called("fsopen", b"tmpfs", 0)
    yield "a device of the disk", node_made()
    # Address families: the machine's own (40), cryptography (38), Bluetooth (31), TIPC (30), packets (17).
    yield "sockets of the machine", made(40)
    for family in (38, 31, 30, 17):
        yield f"sockets of family {family}", made(family, socket.SOCK_SEQPACKET if family == 38 else socket.SOCK_RAW)
    yield "raw sockets", made(socket.AF_INET, socket.SOCK_RAW)
    for path in ("/dev/mem", "/dev/kmsg", "/dev/vda", "/dev/sda", "/proc/kcore", "/proc/1/environ", "/proc/1/mem"):
        yield path, opened(path)
    for path in ("/proc/sys/kernel/core_pattern", "/proc/sys/vm/overcommit_memory", "/sys/power/state"):
        yield f"writing to {path}", opened(path, os.O_WRONLY)


def possible():
    return [name for name, is_open in ways() if is_open]
