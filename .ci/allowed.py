"""Known faults, counted by file: a check fails if a count differs from the allowed one."""

import collections
import pathlib
import sys


def report(findings, allowed_file, usage):
    """Prints the faults and ends the program.

    `findings` are pairs of a key (such as a file) and a text. A line of `allowed_file` has a count and a key. With the
    argument `--all`, the program prints every finding, with `--count` the counts. With `--lower`, it writes lower counts
    to `allowed_file`.
    """
    arguments = sys.argv[1:]
    if arguments not in ([], ["--all"], ["--count"], ["--lower"]):
        sys.exit(usage)
    counts = collections.Counter(key for key, _ in findings)
    if arguments == ["--count"]:
        for key in sorted(counts):
            print(counts[key], key)
        sys.exit(0)

    file = pathlib.Path(allowed_file)
    allowed = collections.Counter()
    if file.exists() and arguments != ["--all"]:
        for line in file.read_text().splitlines():
            count, key = line.split(" ", 1)
            allowed[key] = int(count)
    if arguments == ["--lower"]:
        allowed = collections.Counter({key: min(counts[key], allowed[key]) for key in allowed if counts[key]})
        file.write_text("".join(f"{allowed[key]} {key}\n" for key in sorted(allowed)))
    risen = [key for key in sorted(counts) if counts[key] > allowed[key]]
    fallen = [key for key in sorted(allowed) if counts[key] < allowed[key]]
    for key in risen:
        for _, text in (finding for finding in findings if finding[0] == key):
            print(text)
        if allowed[key]:
            print(f"{key}: {counts[key]} faults, {allowed[key]} are allowed")
    for key in fallen:
        print(f"{key}: {counts[key]} faults, but {file} says {allowed[key]}")
    program = pathlib.Path(sys.argv[0]).name
    if fallen:
        print(f"To lower the counts: .ci/{program} --lower")
    total = sum(counts.values())
    print(f"{program}: {total} faults" + (f", {sum(allowed.values())} allowed" if allowed else ""))
    sys.exit(1 if risen or fallen else 0)
