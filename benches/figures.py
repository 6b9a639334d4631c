#!/usr/bin/env python3
"""Prints three figures of the project's size for a reader: the files that a turn crosses, public types, and terms.

- A turn over SQLite crosses a file if it executes code of the file. The turn is the kind `sqlite` of the bench `profile`,
  without optimization. valgrind runs it twice, with 1 and with 21 more turns. A file counts if the second run executes
  at least one more instruction of it for each of the 20 turns. The names of the files follow with `--files`.
- Public types are the lines that begin with `pub struct`, `pub enum`, `pub trait`, `pub type` or `pub union` in
  `crates/*/src`, without tests. A type in a private module counts, too, if it is written so.
- Terms are the rows of the glossary's tables.

Without valgrind, it leaves out the first figure.
"""

import collections
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
TYPE = re.compile(r"^\s*pub (struct|enum|trait|type|union) ", re.M)
TERM = re.compile(r"^\| \*\*", re.M)
GLOSSARY = ROOT / "crates/tower-chat-history/docs/glossary.md"
TURNS = 20


def program():
    """Builds the bench, and returns its path."""
    command = ["cargo", "test", "-p", "benches", "--bench", "profile", "--no-run", "--message-format=json"]
    built = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    messages = map(json.loads, built.stdout.splitlines())
    return next(message["executable"] for message in messages if message.get("executable"))


def costs(path, turns):
    """Returns the number of instructions of each file in crates/, of all threads."""
    with tempfile.TemporaryDirectory() as directory:
        out = pathlib.Path(directory) / "callgrind.out"
        valgrind = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={out}"]
        subprocess.run([*valgrind, path, "--bench", "sqlite", "60", str(turns)], stderr=subprocess.DEVNULL, check=True)
        profile = out.read_text(encoding="utf-8")
    files, counts, current, is_call = {}, collections.Counter(), "", False
    for line in profile.splitlines():
        if match := re.match(r"(c?f[lie])=\((\d+)\)(?: (.*))?", line):
            kind, number, name = match.groups()
            if name:
                files[number] = name
            # The others name the file of a callee.
            if not kind.startswith("c"):
                current = files[number]
        elif line.startswith("calls="):
            is_call = True
        elif match := re.match(r"[+\-*]?\d* (\d+)$", line):
            # The line after a call has the cost of the callee.
            if not is_call:
                counts[current] += int(match[1])
            is_call = False
    return collections.Counter({name: count for name, count in counts.items() if is_ours(name)})


def is_ours(name):
    return re.search(r"(^|/)crates/tower-chat-history[\w-]*/src/", name) is not None


def crossed():
    """Returns the files that a turn crosses."""
    path = program()
    more, one = costs(path, TURNS + 1), costs(path, 1)
    files = [name for name in more if more[name] - one[name] >= TURNS]
    return sorted(re.sub(r"^.*?(crates/)", r"\1", name) for name in files)


def is_test(path):
    return path.name == "tests.rs" or path.name.endswith("_tests.rs") or {"tests", "testing"} & set(path.parts)


def main():
    if shutil.which("valgrind"):
        files = crossed()
        print(f"{len(files):5}  files that a turn over SQLite crosses")
        if "--files" in sys.argv:
            print(*(f"       {name}" for name in files), sep="\n")
    else:
        print("       valgrind is not installed, so the files of a turn are left out")
    sources = [path for path in ROOT.glob("crates/*/src/**/*.rs") if not is_test(path.relative_to(ROOT))]
    types = sum(len(TYPE.findall(path.read_text(encoding="utf-8"))) for path in sources)
    print(f"{types:5}  public types")
    print(f"{len(TERM.findall(GLOSSARY.read_text(encoding='utf-8'))):5}  terms of the glossary")


main()
