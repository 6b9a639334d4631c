#!/usr/bin/env python3
"""Prints how much code a program has executed: the number of lines of 64 bytes, as KiB, for each crate.

Reads a profile that `valgrind --tool=callgrind --dump-instr=yes` wrote. A line belongs to the first function in the
profile that uses it, and a function to the first crate of this project or of its dependencies in its name. An
instruction counts for the line in which it begins.
"""

import collections
import pathlib
import re
import sys

LINE = 64
CRATE = re.compile(r"tower_chat_history(?:_\w+)?|tokio|tracing|serde_json|futures_util|quick_cache|async_openai")


def lines(path):
    """Yields the function of each instruction, and the place of its line: the file and the number."""
    names, current, address, is_call = {}, {}, 0, False
    for text in path.read_text(encoding="utf-8").splitlines():
        if match := re.match(r"(c?)(fn|ob)=\((\d+)\)(?: (.*))?", text):
            is_callee, kind, number, name = match.groups()
            if name:
                names[kind, number] = name
            if not is_callee:
                current[kind] = names[kind, number]
        elif text.startswith("calls="):
            is_call = True
        elif match := re.match(r"(0x|\+|-|\*)([0-9a-f]*)", text):
            sign, digits = match.groups()
            # Addresses are hexadecimal, and differences are decimal.
            if sign == "0x":
                address = int(digits, 16)
            elif sign != "*":
                address += int(sign + digits)
            # The line after a call has the cost of the callee.
            if not is_call:
                yield current["fn"], (current["ob"], address // LINE)
            is_call = False


def main():
    parts, seen = collections.Counter(), set()
    for function, line in lines(pathlib.Path(sys.argv[1])):
        if line not in seen:
            seen.add(line)
            crate = CRATE.search(function)
            parts[crate.group() if crate else "others"] += LINE
    print(f"{parts.total() / 1024:7.1f} KiB  all")
    for part, size in parts.most_common():
        print(f"{size / 1024:7.1f} KiB  {part}")


main()
