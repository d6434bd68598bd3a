"""Prints what vLLM's parsers find in replies; a program for where vLLM is installed.

Standard input is JSON: the functions' schemas, and for each case the names of the
parsers and the text. Standard output is a list of content, reasoning and calls.
"""

import json
import re
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from importlib import import_module
from typing import Any

PIECES = re.compile(
    r"]<]minimax\[>\[|</?[^<>\s\"]{1,60}>|\[/?[A-Z_]+\]|[^<\]\[]", re.DOTALL
)
SUFFIX = re.compile(r"<tool_calls(:[^\s>]+)>")
TAGS = (
    *("<think>", "</think>", "<assistant>", "<tool_call>", "</tool_call>"),
    *("<tool_calls>", "</tool_calls>", "<|START_THINKING|>", "<|END_THINKING|>"),
    *("<|channel>", "<channel|>", "<|tool_call>", "<tool_call|>", '<|"|>'),
    *("<|tool_calls_section_begin|>", "<|tool_calls_section_end|>"),
    *("<|tool_call_begin|>", "<|tool_call_end|>", "<|tool_call_argument_begin|>"),
    *("<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>", "<｜tool▁call▁begin｜>"),
    *("<｜tool▁call▁end｜>", "<｜tool▁sep｜>", "[TOOL_CALLS]", "[ARGS]"),
    *("<seed:think>", "</seed:think>", "<mm:think>", "</mm:think>"),
    *("<minimax:tool_call>", "</minimax:tool_call>", "<|CHATBOT_TOKEN|>"),
)
"""What parsers look up in the vocabulary before they see a reply."""


class Tokenizer:
    """Tags are tokens, as are single characters."""

    def __init__(self, text: str) -> None:
        self._tokens = list(dict.fromkeys((*PIECES.findall(text), *TAGS)))
        self._ids = {token: at for at, token in enumerate(self._tokens)}
        self.all_special_tokens = [*TAGS]
        self.all_special_ids = [self._ids[token] for token in TAGS]
        suffix = SUFFIX.search(text)
        self.init_kwargs = {"token_suffix": suffix[1] if suffix else ""}
        self.name_or_path = ""
        self.is_fast = True

    def get_vocab(self) -> Mapping[str, int]:
        return self._ids

    def encode(self, text: str, **_: object) -> list[int]:
        known, at, found = self._ids, 0, list[int]()
        while at < len(text):
            tag = PIECES.match(text, at)
            piece = tag[0] if tag and tag[0] in known else text[at]
            if piece not in known:
                known[piece] = len(known)
                self._tokens.append(piece)
            found.append(known[piece])
            at += len(piece)
        return found

    def decode(self, ids: Sequence[int], **_: object) -> str:
        return "".join(self._tokens[each] for each in ids)

    def convert_tokens_to_ids(self, token: str) -> int | None:
        return self._ids.get(token)

    def convert_ids_to_tokens(self, ids: Sequence[int]) -> list[str]:
        return [self._tokens[each] for each in ids]

    def __len__(self) -> int:
        return len(self._tokens)


def read(case: Mapping[str, Any], tools: Sequence[object]) -> Any:
    """Returns content, reasoning and calls of one reply."""
    tokenizer = Tokenizer(case["text"])
    protocol = import_module("vllm.entrypoints.openai.chat_completion.protocol")
    manager = import_module("vllm.parser").ParserManager
    request = protocol.ChatCompletionRequest(
        model="model", messages=[], tools=tools, tool_choice="auto"
    )
    made = manager.get_parser(
        tool_parser_name=case["tool"],
        reasoning_parser_name=None,
        enable_auto_tools=True,
    )
    parser = made(tokenizer, request.tools, chat_template_kwargs={})
    reasoning, content, calls = parser.parse(
        case["text"],
        request,
        enable_auto_tools=True,
        model_output_token_ids=tokenizer.encode(case["text"]),
    )
    found = [(call.name, call.arguments) for call in calls or ()]
    return {"content": content or "", "reasoning": reasoning or "", "calls": found}


def told(reply: Future[Any]) -> Any:
    """Returns what was read, or what went wrong."""
    if (error := reply.exception()) is not None:
        return {"error": f"{type(error).__name__}: {error}"}
    return reply.result()


def main() -> None:
    """Reads the cases, and prints what vLLM says."""
    given = json.load(sys.stdin)
    tools = [
        {"type": "function", "function": {"name": name, "parameters": schema}}
        for name, schema in given["tools"].items()
    ]
    with ThreadPoolExecutor(1) as thread:
        replies = [thread.submit(read, case, tools) for case in given["cases"]]
    found = [told(each) for each in replies]
    sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    main()
