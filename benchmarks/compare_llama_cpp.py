"""The rows beside llama.cpp, in bfloat16, 8 and 4 bits."""

from collections.abc import Iterator, Mapping

from compare_work import HOOKLINE, LLAMA_CPP, Goal, Kind, Row

QUANTIZATIONS = {"bf16": 2.5, "w8a16": 1.5, "w8a8": 1.5, "w4a16": 1.5, "w4a8": 1.5}
"""Names of weights, with the goal of eight requests."""
_ONE, _PROMPT = 1.1, 1.5
"""Goals of one request, and of prompts."""
_DECODES = (1, 2, 4, 8, 32)
_PROMPTS = (512, 3500)


def _row(weights: str, requests: int, prompt: int, goal: float | None) -> Row:
    is_prompt = prompt in _PROMPTS
    metric = "total tok/s" if is_prompt else "output tok/s"
    return Row(
        kind=Kind.OFFLINE,
        model="llama-90m",
        requests=requests,
        input_tokens=prompt,
        output_tokens=1 if is_prompt else 128,
        iterations=5,
        options={} if weights == "bf16" else {"quantization": weights},
        sides=(HOOKLINE, LLAMA_CPP),
        goals=(
            Goal(metric, ratio=goal, peer=LLAMA_CPP),
            Goal("processor s", is_higher_better=False, peer=LLAMA_CPP),
        ),
    )


def _rows() -> Iterator[tuple[str, Row]]:
    for weights, of_eight in QUANTIZATIONS.items():
        for requests in _DECODES:
            goal = {1: _ONE, 8: of_eight}.get(requests)
            yield f"llama.cpp-{weights}-{requests}", _row(weights, requests, 32, goal)
        for prompt in _PROMPTS:
            row = _row(weights, 1, prompt, _PROMPT)
            yield f"llama.cpp-{weights}-prompt-{prompt}", row


LLAMA_CPP_ROWS: Mapping[str, Row] = dict(_rows())
