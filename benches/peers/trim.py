"""Compares LangChain's trim_messages with ours, on the same 10,000 messages, in one run.

    pip install langchain-core tiktoken
    python3 benches/peers/trim.py

It writes the messages to a file, measures LangChain, runs `cargo bench -p benches --bench trim` on the file, measures
LangChain again, and prints the ratios. The list is trimmed to 4,000 tokens with `strategy="last"`,
`include_system=True` and `start_on="human"`. Compare only ratios of one run, measured on an idle machine.
"""

import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from pydoc_data.topics import topics

import tiktoken
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, trim_messages

MESSAGES, TOKENS = 10_000, 4_000
ROOT = Path(__file__).resolve().parents[2]


def texts():
    """Returns texts of 30 to 52 words each, from Python's own documentation."""
    words = "\n\n".join(topics[name] for name in sorted(topics)).split()
    sizes, at, pieces = random.Random(7), 0, []
    while at + 60 < len(words):
        size = sizes.randint(30, 52)
        pieces.append(" ".join(words[at : at + size]))
        at += size
    return pieces


def median(run, seconds=4.0):
    """Runs for this many seconds, at least 5 times, and returns the median time of a run."""
    taken, end = [], time.perf_counter() + seconds
    while len(taken) < 5 or time.perf_counter() < end:
        start = time.perf_counter()
        run()
        taken.append(time.perf_counter() - start)
    return statistics.median(taken)


def langchain(pieces):
    def message(number):
        return (AIMessage if number % 2 else HumanMessage)(pieces[number % len(pieces)])

    messages = [SystemMessage("You are helpful."), *(message(number) for number in range(MESSAGES - 1))]
    encoding = tiktoken.get_encoding("o200k_base")

    def exact(messages):
        return sum(4 + len(encoding.encode_ordinary(message.content)) for message in messages)

    def trim(counter, tokens):
        return trim_messages(
            messages, strategy="last", max_tokens=tokens, token_counter=counter, include_system=True, start_on="human"
        )

    print(f"LangChain keeps {len(trim(exact, TOKENS))} of {MESSAGES} messages", file=sys.stderr)
    return {
        "exact": median(lambda: trim(exact, TOKENS)),
        "approximate": median(lambda: trim("approximate", TOKENS)),
        "messages": median(lambda: trim(len, 60)),
    }


def ours(pieces):
    target = subprocess.run(
        ["cargo", "metadata", "--format-version", "1", "--no-deps"], cwd=ROOT, check=True, capture_output=True
    )
    target = Path(json.loads(target.stdout)["target_directory"])
    with tempfile.NamedTemporaryFile("w", encoding="utf-8", suffix=".txt") as corpus:
        corpus.write("\n".join(pieces))
        corpus.flush()
        environment = {**os.environ, "CORPUS": corpus.name}
        subprocess.run(["cargo", "bench", "-p", "benches", "--bench", "trim"], cwd=ROOT, check=True, env=environment)
    names = ["exact", "approximate", "messages", "exact_new_messages", "fit"]
    estimates = {name: target / "criterion" / "trim" / name / "new" / "estimates.json" for name in names}
    return {name: json.loads(file.read_text())["median"]["point_estimate"] / 1e9 for name, file in estimates.items()}


def main():
    pieces = texts()
    before, rust, after = langchain(pieces), ours(pieces), langchain(pieces)
    print(f"\n{'10,000 messages':32} {'LangChain':>20} {'ours':>12} {'ratio':>16}")
    for name, peer in [
        ("exact", "exact"),
        ("exact_new_messages", "exact"),
        ("fit", "exact"),
        ("approximate", "approximate"),
        ("messages", "messages"),
    ]:
        least, most = sorted([before[peer], after[peer]])
        ratios = f"{least / rust[name]:,.0f} to {most / rust[name]:,.0f}"
        print(f"{name:32} {least * 1e3:8.2f} to {most * 1e3:6.2f} ms {rust[name] * 1e6:9.1f} us {ratios:>16}")


if __name__ == "__main__":
    main()
