"""Requests of a seed, which share prompts and arrive at random."""

import random
from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from hookline.engine.commands import Add, Command
from hookline.request import GenerateRequest
from hookline_testing.simulation import engine_request

Arrivals = list[tuple[float, Command]]
"""Commands with their times in seconds."""
Change = Callable[[GenerateRequest, random.Random], GenerateRequest]


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What arrives.

    Attributes:
        requests: Number of requests.
        seconds: Time in which they arrive.
        prompt_tokens: Most tokens of a prompt's own part.
        shared_tokens: Most tokens of the part that prompts share.
        output_tokens: Most tokens of an output.
        aborts: Share of requests that their clients end early.
    """

    requests: int = 40
    seconds: float = 1.5
    prompt_tokens: int = 50
    shared_tokens: int = 40
    output_tokens: int = 30
    aborts: float = 0.0


def arrivals(load: Load, seed: int, change: Change | None = None) -> Arrivals:
    """Returns the requests of a seed, each as `change` makes it."""
    source = random.Random(seed)  # noqa: S311 - no secret
    shared = [source.randrange(3, 900) for _ in range(load.shared_tokens)]
    found: Arrivals = []
    for request_id in range(1, load.requests + 1):
        own = [source.randrange(3, 900)] * 2
        own += (source.randrange(3, 900) for _ in range(load.prompt_tokens - 2))
        prompt = shared[: source.randrange(load.shared_tokens + 1)]
        prompt += own[: source.randint(1, load.prompt_tokens)]
        request = engine_request(
            request_id, prompt, source.randint(1, load.output_tokens)
        )
        if change is not None:
            request = change(request, source)
        at = source.random() * load.seconds
        found.append((at, Add(request)))
    return found


def with_facts(request: GenerateRequest, **facts: object) -> GenerateRequest:
    """Returns a request with other facts."""
    changed = msgspec.structs.replace(request.facts, **facts)
    return msgspec.structs.replace(request, facts=changed)
