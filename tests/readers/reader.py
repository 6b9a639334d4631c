"""Reads prompts as servers of open models do.

  reader.py templates    renders prompts with the chat templates of trl and axolotl, as vLLM does
  reader.py mistral      checks prompts with the validators of mistral-common

The first line of output is the list of the readers' names. Then, each line of input has the name of a reader, and the
`messages` and the `tools` of a request. The answer is a line that has `refused`: the words of the template or of the
validator, or null.
"""

import datetime
import json
import pathlib
import sys
from importlib import metadata


def main():
    readers = {"templates": templates, "mistral": validators}[sys.argv[1]]()
    say(sorted(readers))
    for line in sys.stdin:
        request = json.loads(line)
        try:
            readers[request["reader"]](request["messages"], request["tools"])
            say({"refused": None})
        except Exception as error:
            say({"refused": str(error) or type(error).__name__})


def say(value):
    print(json.dumps(value), flush=True)


# Chat templates


def templates():
    """Returns a reader for each template, but for those for training, whose prompts end with the reply."""
    readers = {}
    for package in ("trl", "axolotl"):
        for file in metadata.files(package):
            if file.suffix == ".jinja" and not file.stem.endswith("_training"):
                readers[f"{package}/{file.stem}"] = template(file.read_text())
    return readers


def template(text):
    """Returns the reader that renders this template with the settings of transformers, which vLLM and SGLang use."""
    from jinja2.exceptions import TemplateError
    from jinja2.ext import Extension, loopcontrols
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    class Generation(Extension):
        """A block around each reply. It tells a training what to learn."""

        tags = {"generation"}

        def parse(self, parser):
            next(parser.stream)
            return parser.parse_statements(["name:endgeneration"], drop_needle=True)

    def raise_exception(message):
        raise TemplateError(message)

    def tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    extensions = [loopcontrols, Generation]
    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=extensions)
    environment.filters["tojson"] = tojson
    environment.globals["raise_exception"] = raise_exception
    environment.globals["strftime_now"] = datetime.datetime(2026, 11, 1).strftime
    # The special tokens of the tokenizer.
    environment.globals.update(bos_token="<s>", eos_token="</s>", pad_token="</s>", unk_token="<unk>")
    compiled = environment.from_string(text)

    def render(messages, tools, in_parts):
        messages = [template_message(message, in_parts) for message in messages]
        return compiled.render(messages=messages, tools=tools, documents=None, add_generation_prompt=True)

    in_parts = reads_parts(render)
    return lambda messages, tools: render(messages, tools, in_parts)


def reads_parts(render):
    """Returns whether a template reads content that is a list of parts. If so, vLLM passes all content as such lists,
    and else as text."""
    said = [{"role": "user", "content": "apple"}, {"role": "assistant", "content": "pear"}]
    try:
        prompt = render([*said, {"role": "user", "content": "plum"}], None, True)
    except Exception:
        return False
    return all(word in prompt for word in ("apple", "pear", "plum")) and "'text'" not in prompt and '"text"' not in prompt


def template_message(message, in_parts):
    """Returns a message as vLLM passes it to a template."""
    passed = {name: message[name] for name in ("role", "name", "tool_call_id", "reasoning_content") if name in message}
    content = message.get("content")
    parts = [{"type": "text", "text": content}] if isinstance(content, str) else content or []
    parts = [{"type": "image"} if part["type"] == "image_url" else part for part in parts]
    if in_parts:
        passed["content"] = parts
    elif {"type": "image"} in parts:
        raise ValueError("At most 0 image(s) may be provided in one prompt.")
    else:
        passed["content"] = "\n".join(part["text"] for part in parts)
    if message.get("tool_calls"):
        passed["tool_calls"] = [template_call(call) for call in message["tool_calls"]]
    return passed


def template_call(call):
    """Returns a call with parsed arguments. vLLM refuses those that are not JSON, and others those that are not an
    object."""
    arguments = json.loads(call["function"]["arguments"])
    if not isinstance(arguments, dict):
        raise ValueError("arguments must be a valid JSON object string")
    return {**call, "function": {**call["function"], "arguments": arguments}}


# mistral-common


def validators():
    """Returns a reader for each version of Mistral's tokenizer."""
    from mistral_common.protocol.instruct.request import ChatCompletionRequest
    from mistral_common.protocol.instruct.validator import ValidationMode, get_validator
    from mistral_common.tokens.tokenizers.base import TokenizerVersion

    def reader(tokenizer):
        validator = get_validator(tokenizer, ValidationMode.serving)

        def read(messages, tools):
            request = ChatCompletionRequest.from_openai(messages=messages, tools=tools, model="mistral")
            validator.validate_request(request)

        return read

    package = f"mistral-common {metadata.version('mistral-common')}"
    return {f"{package}/{tokenizer.value}": reader(tokenizer) for tokenizer in TokenizerVersion}


main()
