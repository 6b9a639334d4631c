#!/usr/bin/env python3
"""Checks that `trim --mode langchain --keep-pairs false` returns the same as LangChain's trim_messages.

    cargo build --release -p examples --bin trim
    python3 examples/scripts/trim_against_langchain.py target/release/trim DATA [--jobs N]

DATA is a folder of *.jsonl files with recorded runs of tool-calling models, one run per line: {"id", "messages":
[chat-completions messages]}. Files named *.tokens.jsonl are skipped. The script needs langchain-core (version 1.7.2)
and tiktoken. Both programs count with o200k_base. Without a network, TIKTOKEN_CACHE_DIR must name a folder with the
vocabulary.

Every model call of a run becomes one request for each budget. If the strategy keeps the system message, there is a
second request for each budget, in which the tokens of that message are added to the budget. Each request is made twice:
with the original messages, and with their texts as lists of parts (text parts, plain strings, images and parts of an
unknown type, depending on the position of the message). LangChain receives the same messages. If LangChain cannot load
a message, because the arguments of a tool call are invalid JSON, the message is left out for both programs.

Prints a table, and the ids and sizes of all differences. The exit status is 1 if there is a difference.
"""
import argparse, collections, glob, json, multiprocessing, os, subprocess, sys, threading, time

import tiktoken
from langchain_core.messages import convert_to_messages, trim_messages

BUDGETS = [256, 512, 1000, 2000, 4000]
LAST, FIRST, SYSTEM = {"strategy": "last"}, {"strategy": "first"}, {"include_system": True}
STRATEGIES = {
    "last": LAST,
    "last, partial": LAST | {"allow_partial": True},
    "last, system": LAST | SYSTEM,
    "last, system, start": LAST | SYSTEM | {"start_on": ["human"]},
    "last, system, start, end": LAST | SYSTEM | {"start_on": ["human"], "end_on": ["human", "tool"]},
    "last, system, start, end, partial":
        LAST | SYSTEM | {"start_on": ["human"], "end_on": ["human", "tool"], "allow_partial": True},
    "last, system, partial": LAST | SYSTEM | {"allow_partial": True},
    "first": FIRST,
    "first, partial": FIRST | {"allow_partial": True},
    "first, end": FIRST | {"end_on": ["human"]},
}
IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 999}}
IMAGE_TOKENS = 1445
UNKNOWN = {"type": "thing", "said": "it's \"x\"", "at": [1, 2.50, None, True], "where": "Zürich\u00a0今"}


def dumps(value):
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def as_parts(message, position):
    """Returns the message with its text as a list of parts."""
    text = message["content"]
    if not text:
        return message
    pieces = [piece + "\n" for piece in text.split("\n")]
    parts = pieces if position % 3 == 1 else [{"type": "text", "text": piece} for piece in pieces]
    extra = ([], [IMAGE], [UNKNOWN])[position % 5 % 3]
    return {**message, "content": parts + extra if position % 2 else extra + parts}


class Run:
    """A recorded run, as LangChain's messages and as JSON."""

    def __init__(self, run, parts):
        self.id, self.messages, self.loaded, self.points, self.left_out = run["id"], [], [], [], 0
        source = run["messages"]
        for i, message in enumerate(source):
            try:
                [loaded] = convert_to_messages([message])
                if parts:
                    message = as_parts(message, len(self.messages))
                    [loaded] = convert_to_messages([message])
                # Identifies the message in the result, even in part: copies have the same id, and counters ignore it.
                loaded.id = str(len(self.messages))
                self.messages.append(message)
                self.loaded.append(loaded)
            except ValueError:
                self.left_out += 1
            after = source[i + 1]["role"] if i + 1 < len(source) else "assistant"
            if message["role"] in ("user", "tool") and after == "assistant":
                self.points.append(len(self.messages))
        self.json = [dumps(message) for message in self.messages]

    def expected(self, kept):
        """Returns the JSON of a message that LangChain kept, completely or in part."""
        position = int(kept.id)
        if kept.content == self.loaded[position].content:
            return self.json[position]
        return dumps({**self.messages[position], "content": kept.content})


class Exact:
    """Counts with o200k_base: 3 + 1 (role) + content + name (and 1) per message; 3 + name + arguments per call."""

    def __init__(self):
        self.encoding, self.texts = tiktoken.get_encoding("o200k_base"), {}

    def text(self, text):
        if text not in self.texts:
            self.texts[text] = len(self.encoding.encode_ordinary(text))
        return self.texts[text]

    def part(self, part):
        if isinstance(part, str) or part["type"] == "text":
            return self.text(part if isinstance(part, str) else part["text"])
        return IMAGE_TOKENS if part["type"] == "image_url" else self.text(dumps(part))

    def of(self, run):
        def overhead(message):
            calls = [call["function"] for call in message.get("tool_calls") or []]
            name = self.text(message["name"]) + 1 if "name" in message else 0
            return 4 + name + sum(3 + self.text(call["name"]) + self.text(call["arguments"]) for call in calls)

        fixed = [overhead(message) for message in run.messages]

        def count(messages: list) -> int:
            contents = ([m.content] if isinstance(m.content, str) else m.content for m in messages)
            return sum(fixed[int(m.id)] + sum(map(self.part, c)) for m, c in zip(messages, contents))

        return count


def requests(runs, options):
    """Yields id, run, number of messages, budget, and the budget without the system message."""
    for run in runs:
        has_system = options.get("include_system") and run.messages[0]["role"] == "system"
        system = run.count(run.loaded[:1]) if has_system else 0
        for point in run.points:
            for budget in BUDGETS:
                yield f"{run.id}#{point}@{budget}", run, point, budget, budget
                if system:
                    yield f"{run.id}#{point}@{system}+{budget}", run, point, system + budget, budget


def arguments(options):
    for name, value in options.items():
        yield "--" + name.replace("_", "-")
        if value is not True:
            yield value if isinstance(value, str) else ",".join(value)
    yield from ("--mode", "langchain", "--keep-pairs", "false", "--counter", "o200k")


def compare(job):
    binary, paths, shape, strategy = job
    options, seconds, started = STRATEGIES[strategy], 0.0, time.perf_counter()
    runs = [Run(json.loads(line), shape == "parts") for path in paths for line in open(path, encoding="utf-8")]
    counter = Exact()
    for run in runs:
        run.count = counter.of(run)
    child = subprocess.Popen([binary, *arguments(options)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def send():
        with child.stdin as out:
            for id, run, point, max_tokens, _ in requests(runs, options):
                messages = ",".join(run.json[:point])
                out.write(f'{{"id":{dumps(id)},"messages":[{messages}],"max_tokens":{max_tokens}}}\n'.encode())

    threading.Thread(target=send, daemon=True).start()
    figures, differing = collections.Counter(left_out=sum(run.left_out for run in runs)), []
    for id, run, point, max_tokens, budget in requests(runs, options):
        count, before = run.count, time.perf_counter()
        kept = trim_messages(run.loaded[:point], max_tokens=max_tokens, token_counter=count, **options)
        seconds += time.perf_counter() - before
        expected = [run.expected(message) for message in kept]
        answer = child.stdout.readline()
        line = f'{{"id":{dumps(id)},"messages":[{",".join(expected)}],"tokens":{count(kept)}}}\n'.encode()
        in_part = any(text != run.json[int(message.id)] for text, message in zip(expected, kept))
        figures.update({"requests": 1, budget: 1, "trimmed": len(kept) < point, "in part": in_part, "empty": not kept})
        if answer != line:
            figures["differences"] += 1
            got = json.loads(answer or "{}")
            got = f"{len(got.get('messages', []))} of {got.get('tokens')}"
            differing.append(f"{id}: expected {len(kept)} messages of {count(kept)} tokens, got {got}")
    if child.stdout.read() or child.wait():
        differing.append("there are more answers than requests, or the exit status is not 0")
        figures["differences"] += 1
    return job[2:], figures, differing, seconds, time.perf_counter() - started


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary")
    parser.add_argument("data")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    args = parser.parse_args()
    paths = [p for p in sorted(glob.glob(os.path.join(args.data, "*.jsonl"))) if not p.endswith(".tokens.jsonl")]
    if not paths:
        parser.error("the data folder has no *.jsonl files")
    jobs = [(args.binary, paths, shape, strategy) for shape in ("texts", "parts") for strategy in STRATEGIES]
    columns = ["requests", *BUDGETS, "trimmed", "in part", "empty", "differences"]
    titles = ["contents", "strategy", *map(str, columns), "LangChain, s", "all, s"]
    print("| " + " | ".join(titles) + " |\n|" + "---|" * len(titles))
    total, started, found = collections.Counter(), time.perf_counter(), []
    with multiprocessing.Pool(args.jobs) as pool:
        for what, figures, differing, seconds, all_seconds in pool.imap(compare, jobs):
            cells = [*what, *(figures[column] for column in columns), f"{seconds:.1f}", f"{all_seconds:.1f}"]
            print("| " + " | ".join(map(str, cells)) + " |", flush=True)
            total.update({**figures, "left_out": 0})
            found += [" ".join(what) + " " + text for text in differing[:3]]
            left_out = figures["left_out"]
    print(f"\n{total['requests']} requests compared, {total['differences']} differ; {left_out} messages that LangChain "
          f"cannot load were left out; {time.perf_counter() - started:.0f} s")
    print("\n".join(found))
    return 1 if total["differences"] else 0


if __name__ == "__main__":
    sys.exit(main())
