#!/usr/bin/env python3
"""Prints the parts of the CPU time of a process, from the stacks that `perf script` writes to its standard input.

A sample belongs to the first part whose pattern matches a function of its stack, from the innermost outwards. Functions
of the standard library, of serde and of allocators therefore belong to their callers.
"""

import collections
import re
import sys

# From the most specific to the most general, for each function.
PARTS = [
    ("kernel: flush and write of files", r"^(__x64_sys_|__do_sys_|ksys_)?(fdatasync|fsync|pwrite64|vfs_fsync)"),
    ("kernel: read of files", r"^(__x64_sys_|ksys_)(pread64|read)|^vfs_read"),
    ("kernel: locks of files", r"^(__x64_sys_|__do_sys_)?fcntl"),
    ("kernel: wake-ups and waits", r"^(__x64_sys_|do_)(futex|epoll_wait|epoll_pwait)|^(schedule|__schedule)$|eventfd"),
    ("kernel: sockets", r"^(__x64_sys_|__sys_)(sendto|sendmsg|recvfrom|recvmsg|writev)|^unix_stream"),
    ("SQLite", r"^sqlite3|^rusqlite|<rusqlite"),
    ("driver", r"tokio_postgres|postgres_protocol|postgres_types|deadpool|\bredis::|<redis|combine::"),
    ("store", r"tower_chat_history_(sqlite|postgres|redis)"),
    ("records, messages and other parts of the core crate", r"tower_chat_history_core"),
    ("plan", r"tower_chat_history::context"),
    ("integration (async-openai's types)", r"tower_chat_history_openai|async_openai"),
    ("layer, engine and cache", r"tower_chat_history"),
    ("runtime", r"\btokio::|<tokio|\bmio::"),
]
PARTS = [(name, re.compile(pattern)) for name, pattern in PARTS]


def part(stack):
    """Returns the name of the part of a stack."""
    for function in stack:
        for name, pattern in PARTS:
            if pattern.search(function):
                return name
    return "others"


def main():
    counts, others, stack = collections.Counter(), collections.Counter(), []
    for line in [*sys.stdin, ""]:
        if line.startswith("\t"):
            fields = line.split(None, 1)
            stack.append(fields[1].strip() if len(fields) > 1 else "")
        elif not line.strip() and stack:
            name = part(stack)
            counts[name] += 1
            if name == "others":
                others[stack[0]] += 1
            stack = []
    for name, count in counts.most_common():
        print(f"{100 * count / counts.total():5.1f}%  {name}")
    if "-v" in sys.argv:
        print(*others.most_common(15), sep="\n")


main()
