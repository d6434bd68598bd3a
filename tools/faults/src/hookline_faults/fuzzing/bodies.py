"""Bodies of the API's endpoints: right ones, then mutated in every way."""

import copy
import random
from collections.abc import Mapping

from hypothesis import strategies as st

from hookline_faults.fuzzing.hostile_values import hostile_values
from hookline_faults.fuzzing.json_text import Json, Literal, Members, json_bytes

MODEL = "demo"
ENDPOINTS = (
    *("/v1/completions", "/v1/chat/completions", "/v1/messages"),
    *("/v1/messages/count_tokens", "/tokenize", "/detokenize"),
    *("/v1/responses", "/v1/responses/input_tokens", "/v1/embeddings", "/pooling"),
)
"""Those that a server lacks are 404."""

_Strategy = st.SearchStrategy[Json]


def _one_of(*values: Json) -> _Strategy:
    return st.sampled_from(values)


_SMALL_IDS: _Strategy = st.lists(st.integers(0, 4095), min_size=1, max_size=20)
_TEXT = st.text(max_size=40)
_ROLE = st.sampled_from(("system", "user", "assistant", "developer", "tool", "nobody"))

GENERATION: Mapping[str, _Strategy] = {
    "max_tokens": _one_of(1, 2, 3, 8, 16, "4"),
    "n": _one_of(1, 2, 4),
    "temperature": _one_of(0, 0.5, 1, 2, "0.5"),
    "top_p": _one_of(0.1, 0.9, 1),
    "top_k": _one_of(-1, 0, 1, 50),
    "min_p": _one_of(0, 0.1, 1),
    "stop": st.one_of(_TEXT, st.lists(_TEXT, max_size=4)),
    "stop_token_ids": _SMALL_IDS,
    "min_tokens": _one_of(0, 1, 4),
    "ignore_eos": st.booleans(),
    "include_stop_str_in_output": st.booleans(),
    "skip_special_tokens": st.booleans(),
    "presence_penalty": _one_of(-2, 0, 0.5, 2),
    "frequency_penalty": _one_of(-2, 0, 0.5, 2),
    "repetition_penalty": _one_of(0.5, 1, 1.2),
    "logit_bias": _one_of(
        Members([("5", 1.5)]), Members([("5", -100), ("4095", 100)]), Members([])
    ),
    "allowed_token_ids": _SMALL_IDS,
    "bad_words": st.lists(_TEXT, max_size=4),
    "seed": st.integers(-(2**63), 2**63 - 1),
    "stream": st.booleans(),
    "stream_options": _one_of(
        Members([("include_usage", True)]),
        Members([("continuous_usage_stats", True), ("include_usage", True)]),
    ),
    "priority": _one_of(-5, 0, 7),
    "cache_salt": st.text(min_size=1, max_size=10),
    "speculation": st.booleans(),
    "use_beam_search": st.booleans(),
    "prompt_logprobs": _one_of(0, 1, 20),
    "truncate_prompt_tokens": _one_of(-1, 1, 2, 100),
    "return_token_ids": st.booleans(),
    "return_tokens_as_token_ids": st.booleans(),
    "vllm_xargs": _one_of(Members([("a", 1), ("b", ["c", 0.5])])),
    "kv_transfer_params": _one_of(
        Members([("do_remote_decode", True)]),
        Members([("do_remote_prefill", True), ("remote_engine_id", "x")]),
    ),
}
COMPLETION: Mapping[str, _Strategy] = {
    **GENERATION,
    "echo": st.booleans(),
    "logprobs": _one_of(0, 1, 5, 20),
    "add_special_tokens": st.booleans(),
    "best_of": _one_of(1, 2),
    "suffix": _one_of(None, "a"),
}
CHAT: Mapping[str, _Strategy] = {
    **GENERATION,
    "max_completion_tokens": _one_of(1, 2, 8),
    "logprobs": st.booleans(),
    "top_logprobs": _one_of(0, 1, 20),
    "add_generation_prompt": st.booleans(),
    "echo": st.booleans(),
    "tools": _one_of([], [Members([("type", "function")])]),
    "tool_choice": _one_of("none", "auto", "required"),
    "response_format": _one_of(
        Members([("type", "text")]), Members([("type", "json_object")])
    ),
    "chat_template": _one_of("{{ messages }}"),
    "chat_template_kwargs": _one_of(Members([("tokenize", True)])),
}
_ANTHROPIC_TOOL = Members(
    [("name", "f"), ("input_schema", Members([("type", "object")]))]
)
ANTHROPIC_PROMPT: Mapping[str, _Strategy] = {
    "system": st.one_of(
        _TEXT, _TEXT.map(lambda text: [Members([("type", "text"), ("text", text)])])
    ),
    "tools": _one_of([], [_ANTHROPIC_TOOL], [Members([("type", "web_search")])]),
    "tool_choice": st.sampled_from(("auto", "any", "tool", "none")).map(
        lambda kind: Members([("type", kind), ("name", "f")])
    ),
    "thinking": _one_of(
        Members([("type", "disabled")]),
        Members([("type", "adaptive")]),
        Members([("type", "enabled"), ("budget_tokens", 16)]),
    ),
    "output_config": _one_of(
        Members([]), Members([("format", Members([("type", "json_schema")]))])
    ),
    "metadata": _one_of(Members([("user_id", "a")])),
    "container": _one_of(None, "a"),
}
ANTHROPIC: Mapping[str, _Strategy] = {
    **ANTHROPIC_PROMPT,
    **{name: GENERATION[name] for name in ("temperature", "top_p", "top_k", "stream")},
    **{name: GENERATION[name] for name in ("priority", "cache_salt")},
    "stop_sequences": st.lists(_TEXT, max_size=4),
}
_RESPONSE_FUNCTION = Members(
    [("type", "function"), ("name", "f"), ("parameters", Members([]))]
)
RESPONSE: Mapping[str, _Strategy] = {
    **{name: GENERATION[name] for name in ("temperature", "top_p", "top_k", "stream")},
    **{name: GENERATION[name] for name in ("seed", "stop", "priority", "cache_salt")},
    "instructions": _TEXT,
    "max_output_tokens": _one_of(1, 2, 8),
    "top_logprobs": _one_of(0, 1, 20),
    "include": _one_of([], ["message.output_text.logprobs"]),
    "tools": _one_of([], [_RESPONSE_FUNCTION], [Members([("type", "web_search")])]),
    "tool_choice": _one_of(
        "none", "auto", "required", Members([("type", "function"), ("name", "f")])
    ),
    "parallel_tool_calls": st.booleans(),
    "text": _one_of(
        Members([("format", Members([("type", "text")]))]),
        Members([("format", Members([("type", "json_object")]))]),
    ),
    "reasoning": _one_of(Members([]), Members([("effort", "low")])),
    "truncation": _one_of("auto", "disabled"),
    "metadata": _one_of(Members([("a", "b")])),
    "store": st.booleans(),
    "previous_response_id": _one_of(None, "resp_none"),
    "background": st.booleans(),
}
EMBEDDING: Mapping[str, _Strategy] = {
    "encoding_format": _one_of("float", "base64", "bytes"),
    "dimensions": _one_of(1, 8, 4096),
    "normalize": st.booleans(),
    "truncate_prompt_tokens": GENERATION["truncate_prompt_tokens"],
    "add_special_tokens": st.booleans(),
    "priority": GENERATION["priority"],
    "cache_salt": GENERATION["cache_salt"],
    "task": _one_of("embed", "token_embed", "classify"),
    "user": _TEXT,
}
TOKENIZE: Mapping[str, _Strategy] = {
    "add_special_tokens": st.booleans(),
    "add_generation_prompt": st.booleans(),
    "return_token_strs": st.booleans(),
}


@st.composite
def bodies(draw: st.DrawFn, endpoint: str) -> bytes:
    """Returns an endpoint's body: right, or mutated as a structure."""
    body = copy.deepcopy(draw(_right(endpoint)))  # strategies hold parts of it
    for _ in range(draw(st.sampled_from((0, 0, 1, 1, 1, 2, 3)))):
        _mutate(draw, body)
    return json_bytes(body)


@st.composite
def _right(draw: st.DrawFn, endpoint: str) -> Members:
    pairs: list[tuple[str, Json]] = [("model", MODEL)]
    match endpoint:
        case "/v1/completions":
            pairs.append(("prompt", draw(_prompts())))
            options = COMPLETION
        case "/v1/chat/completions":
            pairs.append(("messages", draw(_messages())))
            options = CHAT
        case "/v1/messages" | "/v1/messages/count_tokens":
            pairs.append(("messages", draw(_anthropic_messages())))
            is_counted = endpoint != "/v1/messages"
            options = ANTHROPIC_PROMPT if is_counted else ANTHROPIC
        case "/v1/responses" | "/v1/responses/input_tokens":
            pairs.append(("input", draw(st.one_of(_TEXT, _items()))))
            options = RESPONSE
        case "/v1/embeddings" | "/pooling":
            pairs.append(("input", draw(_prompts())))
            options = EMBEDDING
        case "/tokenize":
            is_chat = draw(st.booleans())
            prompt = (
                ("messages", draw(_messages())) if is_chat else ("prompt", draw(_TEXT))
            )
            pairs.append(prompt)
            options = TOKENIZE
        case _:
            pairs.append(("tokens", draw(_SMALL_IDS)))
            return Members(pairs)
    if options in (COMPLETION, CHAT, ANTHROPIC):
        pairs.append(("max_tokens", draw(_one_of(1, 2, 4))))
    chosen = draw(st.lists(st.sampled_from(sorted(options)), max_size=5, unique=True))
    names = {name for name, _ in pairs}
    pairs += [(name, draw(options[name])) for name in chosen if name not in names]
    return Members(pairs)


def _prompts() -> _Strategy:
    return st.one_of(
        _TEXT,
        _SMALL_IDS,
        st.lists(_TEXT, min_size=1, max_size=4),
        st.lists(_SMALL_IDS, min_size=1, max_size=4),
    )


@st.composite
def _messages(draw: st.DrawFn) -> Json:
    found: list[Json] = []
    for _ in range(draw(st.integers(1, 3))):
        text = draw(_TEXT)
        content: Json = text
        if draw(st.integers(0, 3)) == 0:
            content = [Members([("type", "text"), ("text", text)])]
        found.append(Members([("role", draw(_ROLE)), ("content", content)]))
    return found


@st.composite
def _items(draw: st.DrawFn) -> Json:
    """Returns messages, calls and their results, in any order."""
    found: list[Json] = []
    for _ in range(draw(st.integers(1, 3))):
        text = draw(_TEXT)
        call: list[tuple[str, Json]] = [("call_id", "a")]
        match draw(st.sampled_from(("message", "message", "call", "result"))):
            case "call":
                call += [("type", "function_call"), ("name", "f"), ("arguments", "{}")]
                found.append(Members(call))
            case "result":
                call += [("type", "function_call_output"), ("output", text)]
                found.append(Members(call))
            case _:
                part = Members([("type", "input_text"), ("text", text)])
                content: Json = draw(_one_of(text, [part]))
                found.append(Members([("role", draw(_ROLE)), ("content", content)]))
    return found


@st.composite
def _anthropic_messages(draw: st.DrawFn) -> Json:
    """Returns turns of blocks, some of which stand where they must not."""
    found: list[Json] = []
    for number in range(draw(st.sampled_from((1, 1, 3)))):
        role = "assistant" if number % 2 else "user"
        content = draw(st.one_of(_TEXT, st.lists(_blocks(), min_size=1, max_size=3)))
        found.append(Members([("role", role), ("content", content)]))
    return found


@st.composite
def _blocks(draw: st.DrawFn) -> Json:
    text = draw(_TEXT)
    match draw(
        st.sampled_from(("text", "text", "text", "tool_use", "tool_result", "thinking"))
    ):
        case "tool_use":
            call = Members([("type", "tool_use"), ("id", "a"), ("name", "f")])
            call.pairs.append(("input", Members([("a", text)])))
            return call
        case "tool_result":
            result = Members([("type", "tool_result"), ("tool_use_id", "a")])
            result.pairs.append(("content", text))
            return result
        case "thinking":
            return Members([("type", "thinking"), ("thinking", text)])
        case _:
            return Members([("type", "text"), ("text", text)])


def _mutate(draw: st.DrawFn, body: Members) -> None:
    """Changes one member, of the body or of something in it."""
    place = body
    inner = [each for _, each in body.pairs if isinstance(each, Members)]
    is_inner = draw(st.booleans())
    if inner and is_inner:
        place = inner[draw(st.integers(0, len(inner) - 1))]
    if not place.pairs:
        place.pairs.append(("a", draw(hostile_values())))
        return
    index = draw(st.integers(0, len(place.pairs) - 1))
    key, value = place.pairs[index]
    match draw(
        st.sampled_from(("value", "value", "twice", "drop", "wrap", "add", "key"))
    ):
        case "value":
            place.pairs[index] = (key, draw(hostile_values()))
        case "twice":
            place.pairs.append((key, draw(hostile_values())))
        case "drop":
            del place.pairs[index]
        case "wrap":
            place.pairs[index] = (key, [value])
        case "add":
            name = draw(st.sampled_from(sorted({*COMPLETION, *CHAT})))
            place.pairs.append((name, draw(hostile_values())))
        case _:
            place.pairs[index] = (draw(st.text(max_size=8)), value)


def huge_body(endpoint: str, source: random.Random, size: int) -> bytes:
    """Returns a body of about this size whose bulk is in one field."""
    items = size // 2
    bulk: dict[str, Json] = {
        "prompt": Literal('"' + "a " * items + '"'),
        "stop_token_ids": Literal("[" + "1," * (items - 1) + "1]"),
        "allowed_token_ids": Literal("[" + "1," * (items - 1) + "1]"),
        "bad_words": Literal('["' + 'a","' * (size // 4) + '"]'),
        "stop": Literal('["' + 'a","' * (size // 4) + '"]'),
        "logit_bias": Literal(
            "{" + ",".join(f'"{at}":1' for at in range(size // 8)) + "}"
        ),
        "kv_transfer_params": Literal("{" + '"a":[' + "1," * (items - 1) + "1]}"),
        "vllm_xargs": Literal("{" + '"a":[' + "1," * (items - 1) + "1]}"),
        "tokens": Literal("[" + "1," * (items - 1) + "1]"),
        "input": Literal("[" + "1," * (items - 1) + "1]"),
        "unknown": Literal("[" * (size // 2) + "]" * (size // 2)),
        "messages": Literal(
            "[" + ",".join(['{"role":"user","content":"a"}'] * (size // 30)) + "]"
        ),
    }
    name = source.choice(sorted(bulk))
    pairs: list[tuple[str, Json]] = [("model", MODEL), ("max_tokens", 2)]
    if name != "prompt" and endpoint == "/v1/completions":
        pairs.append(("prompt", [1]))
    pairs += [(name, bulk[name]), ("n", source.choice((1, 2, 128)))]
    return json_bytes(Members(pairs))
