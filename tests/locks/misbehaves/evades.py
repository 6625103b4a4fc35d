"""Ways to take memory that no look at the pages of running programs finds."""

import ctypes
import mmap
import os
import socket
import struct
import threading
import time

import attempts

MIB = 1 << 20
LIBC = attempts.LIBC
LIBC.mmap.restype = ctypes.c_void_p
LIBC.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
LIBC.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
LIBC.vmsplice.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_ulong, ctypes.c_uint]
NETLINK_ROUTE, RTM_GETLINK, REQUEST, DUMP = 0, 18, 1, 0x300


def maps_files_in_memory():
    """Of each file one page is mapped, and no descriptor is open."""
    while True:
        file = os.memfd_create("mapped")
        os.write(file, b"x" * 16 * MIB)
        LIBC.mmap(None, mmap.PAGESIZE, mmap.PROT_READ, mmap.MAP_SHARED, file, 0)
        os.close(file)


def shares_anonymous_memory():
    """A program that has ended wrote it; this one has not touched it."""
    kept = []
    while True:
        kept.append(mmap.mmap(-1, 16 * MIB))
        if (child := os.fork()) == 0:
            kept[-1].write(b"x" * 16 * MIB)
            os._exit(0)
        os.waitpid(child, 0)


def makes_page_tables():
    """Each first read of two megabytes makes a table; the page that is read is the one of zeros."""
    apart, reads = 2 * MIB, 1 << 14
    while True:
        start = LIBC.mmap(None, apart * reads, mmap.PROT_READ, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000, -1, 0)
        for place in range(0, apart * reads, apart):
            ctypes.c_char.from_address(start + place).value


def fills_netlink():
    """The kernel answers what is asked of it, and nobody reads the answer."""
    question = struct.pack("=IHHIIBxHiII", 32, RTM_GETLINK, REQUEST | DUMP, 1, 0, 0, 0, 0, 0, 0)
    attempts.raise_the_limit_of_files()
    kept = []
    while True:
        kept.append(socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_ROUTE))
        kept[-1].setblocking(False)
        try:
            for _ in range(100):
                kept[-1].send(question)
        except OSError:
            pass


def sends_datagrams_and_leaves():
    attempts.raise_the_limit_of_files()
    kept = []
    while True:
        sender, receiver = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        sender.setblocking(False)
        try:
            while True:
                sender.send(b"x" * 4096)
        except BlockingIOError:
            pass
        kept.append(receiver)


def gives_pages_to_pipes():
    """The pages are mapped nowhere any more."""

    class Part(ctypes.Structure):
        _fields_ = [("start", ctypes.c_void_p), ("length", ctypes.c_size_t)]

    attempts.raise_the_limit_of_files()
    # One program can have only so many pipes.
    for _ in range(8):
        if os.fork() == 0:
            break
    kept, length = [], 16 * mmap.PAGESIZE
    while True:
        try:
            reader, writer = os.pipe2(os.O_NONBLOCK)
        except OSError:
            time.sleep(600)
        kept += [reader, writer]
        start = LIBC.mmap(None, length, 3, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1, 0)
        ctypes.memset(start, 1, length)
        LIBC.vmsplice(writer, ctypes.byref(Part(start, length)), 1, 2)
        LIBC.munmap(start, length)


def maps_files_without_a_name():
    while True:
        with open("/data/much", "w+b") as file:
            file.write(b"x" * 16 * MIB)
            file.flush()
            LIBC.mmap(None, mmap.PAGESIZE, mmap.PROT_READ, mmap.MAP_SHARED, file.fileno(), 0)
        os.unlink("/data/much")


def ends_its_first_thread():
    """What /proc says of the program is then what it says of one that has ended."""

    def take():
        time.sleep(0.2)
        taken = []
        while True:
            taken.append(bytearray(b"x") * (16 * MIB))
            time.sleep(0.01)

    if os.fork() == 0:
        threading.Thread(target=take).start()
        LIBC.syscall(93 if attempts.IS_ARM else 60, 0)
    time.sleep(600)


def fills_shared_memory():
    with open("/dev/shm/much", "wb") as file:
        while True:
            file.write(b"x" * 16 * MIB)


WAYS = {
    "maps-files-in-memory": maps_files_in_memory,
    "shares-anonymous-memory": shares_anonymous_memory,
    "makes-page-tables": makes_page_tables,
    "fills-netlink": fills_netlink,
    "sends-datagrams-and-leaves": sends_datagrams_and_leaves,
    "gives-pages-to-pipes": gives_pages_to_pipes,
    "maps-files-without-a-name": maps_files_without_a_name,
    "ends-its-first-thread": ends_its_first_thread,
    "fills-shared-memory": fills_shared_memory,
}
