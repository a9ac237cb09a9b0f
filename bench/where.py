#!/usr/bin/env python3
"""Says where the threads of a process are that does not end: `where.py PID`.

For machines without a debugger (Linux, x86-64). Prints, for each thread, its instruction and what
on its stack may be return addresses, as `file+0xaddress`. `addr2line -fe FILE 0xaddress` makes
lines of them, with a FILE of the same build that was not stripped.
"""

import ctypes
import os
import platform
import struct
import sys
from pathlib import Path
from typing import NamedTuple

# ptrace's requests, and the flag by which any thread can be waited for (ptrace(2), wait(2)).
GETREGS, ATTACH, DETACH = 12, 16, 17
WAIT_ALL = 0x40000000
# Registers of `struct user_regs_struct` on x86-64 (sys/user.h): how many, the instruction's
# address, and the stack's.
REGISTERS, INSTRUCTION, STACK = 27, 16, 19
# What of a stack is read, in bytes, and how many addresses of it are printed.
STACK_BYTES = 16384
MOST_ADDRESSES = 48


class Code(NamedTuple):
    """Executable memory that a file is mapped to."""

    start: int
    end: int
    base: int
    """Where the file's beginning is mapped."""
    name: str


def code_of(maps: str) -> list[Code]:
    """The executable mappings of files, by the text of `/proc/PID/maps`."""
    bases: dict[str, int] = {}
    found = []
    for line in maps.splitlines():
        addresses, rights, _, _, _, *path = line.split(maxsplit=5)
        if not path:
            continue
        start, end = (int(address, 16) for address in addresses.split("-"))
        base = bases.setdefault(path[0], start)
        if "x" in rights:
            found.append(Code(start, end, base, path[0].rsplit("/", 1)[-1]))
    return found


def named(address: int, code: list[Code]) -> str | None:
    """An address by its file, if it is one of code."""
    for start, end, base, name in code:
        if start <= address < end:
            return f"{name}+{address - base:#x}"
    return None


def thread(process: int, number: int, code: list[Code]) -> str:
    """Where a thread is. It is stopped meanwhile."""
    name = Path(f"/proc/{process}/task/{number}/comm").read_text().strip()
    libc = ctypes.CDLL(None, use_errno=True)
    arguments = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
    libc.ptrace.argtypes, libc.ptrace.restype = arguments, ctypes.c_long
    if libc.ptrace(ATTACH, number, None, None):
        return f"{name} {number}: {os.strerror(ctypes.get_errno())}"
    try:
        os.waitpid(number, WAIT_ALL)
        registers = (ctypes.c_ulonglong * REGISTERS)()
        libc.ptrace(GETREGS, number, None, registers)
        with open(f"/proc/{process}/mem", "rb", buffering=0) as memory:
            memory.seek(registers[STACK])
            stack = memory.read(STACK_BYTES)
    finally:
        libc.ptrace(DETACH, number, None, None)
    words = struct.unpack(f"<{len(stack) // 8}Q", stack[: len(stack) // 8 * 8])
    addresses = [found for word in words if (found := named(word, code))]
    at = named(registers[INSTRUCTION], code) or f"{registers[INSTRUCTION]:#x}"
    return "\n  ".join([f"{name} {number}: {at}", *addresses[:MOST_ADDRESSES]])


def threads(process: int) -> str:
    """Where each thread of a process is, or why that cannot be said."""
    if (platform.system(), platform.machine()) != ("Linux", "x86_64"):
        return "where its threads are can be said on Linux on x86-64 alone"
    try:
        code = code_of(Path(f"/proc/{process}/maps").read_text())
        numbers = sorted(int(number) for number in os.listdir(f"/proc/{process}/task"))
        return "\n".join(thread(process, number, code) for number in numbers)
    except OSError as error:
        return f"where its threads are cannot be said: {error}"


if __name__ == "__main__":
    if len(sys.argv) != 2 or not sys.argv[1].isdigit():
        sys.exit(__doc__)
    print(threads(int(sys.argv[1])))
