"""A logits processor that lets any model hold the conversations that clients test.

A model that writes gibberish calls no tool of its own accord. This processor gives the
tokens of a reply that the conversation asks for; the engine, the parsers and the server
around it are the real ones. Requests that ask for nothing of it are left to the model,
and so are those whose grammar allows another reply only.
"""

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

from tokenizers import Tokenizer

from hookline.model_description import find_folder
from hookline.step import AdmittedSequence

if TYPE_CHECKING:  # `hookline plugins` loads this module, and torch takes seconds
    import torch

    from hookline.engine.worker.sampling.logits_processor import (
        LogitsProcessorContext,
        SampledPositions,
    )

TEMPLATE = """\
{% if tools %}<|im_start|>tools
{{ tools | tojson }}<|im_end|>
{% endif %}\
{% for message in messages %}<|im_start|>{{ message['role'] }}
{{ message['content'] or '' }}\
{% for call in message['tool_calls'] or [] %}<tool_call>
{{ call['function'] | tojson }}
</tool_call>{% endfor %}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% if 'Think' not in (messages[-1]['content'] or '') %}<think>

</think>

{% endif %}{% endif %}"""
"""The chat template whose prompts `reply_to` reads.

It rules reasoning out unless it is asked for: gibberish never ends its reasoning.
"""

TOOL = "get_weather"
COUNTED = 500
REASONING, ANSWER = "Two and two make four.", "It is four."

_TURN = re.compile(r"<\|im_start\|>(\w+)\n(.*?)<\|im_end\|>", re.DOTALL)
_WEATHER = re.compile(r"weather in (\w+)(?: and (\w+))?")


def reply_to(prompt: str) -> str | None:
    """Returns the reply that a conversation asks for; None if it asks for none.

    - "weather in A and B", with a tool `get_weather`, of a namespace or none: a call
      for each city;
    - results of tools: a sentence with all of them;
    - "Think": reasoning and an answer;
    - "first": what the user said first;
    - "Count": a reply that takes seconds.
    """
    turns = [(match[1], match[2]) for match in _TURN.finditer(prompt)]
    role, said = turns[-1] if turns else ("", "")
    if role == "tool":
        return f"The tools say: {', '.join(_results(turns))}."
    return _answer(said, turns) if role == "user" else None


def _answer(said: str, turns: list[tuple[str, str]]) -> str | None:
    if (asked := _WEATHER.search(said)) and turns[0][0] == "tools":
        name = _name_of_tool(turns[0][1])
        return "\n".join(_call(name, city) for city in asked.groups() if city)
    if "Think" in said:
        return f"<think>\n{REASONING}\n</think>\n\n{ANSWER}"
    if "first" in said:
        return next(text for role, text in turns if role == "user")
    if "Count" in said:
        return " ".join(str(number) for number in range(COUNTED))
    return None


def _results(turns: list[tuple[str, str]]) -> list[str]:
    """Returns the contents of the last turns of tools."""
    results: list[str] = []
    for role, said in reversed(turns):
        if role != "tool":
            break
        results.insert(0, said)
    return results


def _name_of_tool(tools: str) -> str:
    """Returns the name for the model; the grammar of a strict tool allows no other."""
    names: list[str] = [tool["function"]["name"] for tool in json.loads(tools)]
    return next((name for name in names if name.endswith(f"__{TOOL}")), TOOL)


def _call(name: str, city: str) -> str:
    call = {"name": name, "arguments": {"city": city}}
    return f"<tool_call>\n{json.dumps(call, ensure_ascii=False)}\n</tool_call>"


class ScriptedReplies:
    """The processor; its state follows from the tokens."""

    needs_prepare = False

    def __init__(self, context: "LogitsProcessorContext") -> None:
        folder = Path(find_folder(context.config.model.model))
        self._tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self._scripts: dict[int, tuple[int, ...]] = {}

    def admit(self, row: int, sequence: AdmittedSequence) -> bool:
        prompt = list(sequence.token_ids[: sequence.num_prompt_tokens])
        reply = reply_to(self._tokenizer.decode(prompt, skip_special_tokens=False))
        if reply is None:
            return False
        tokens = self._tokenizer.encode(reply, add_special_tokens=False).ids
        end = sequence.eos_token_ids[0]
        self._scripts[row] = (*tokens, end)
        return True

    def release(self, row: int) -> None:
        del self._scripts[row]

    def prepare(self, positions: "SampledPositions") -> None:
        """Not needed."""

    def apply(self, logits: "torch.Tensor", positions: "SampledPositions") -> None:
        counts = positions.num_output_tokens.tolist()
        places = zip(positions.indices, positions.rows, counts, strict=True)
        for at, (index, row, count) in enumerate(places):
            script = self._scripts[int(row)]
            written = tuple(positions.tokens(at)[-count:].tolist()) if count else ()
            # Grammars have masked what they forbid.
            is_next = written == script[:count] and len(script) > count
            if is_next and logits[index, script[count]].isfinite():
                logits[index] = float("-inf")
                logits[index, script[count]] = 0.0
