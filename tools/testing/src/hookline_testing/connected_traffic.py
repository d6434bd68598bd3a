"""Random requests for an engine core with a connector, and what they must give."""

import random
from collections.abc import Callable, Sequence

from hookline.events import StepOutput
from hookline.finish_cause import Aborted
from hookline_testing.connected_core import ConnectedCore, tokens_by_request
from hookline_testing.simulation import engine_request

_VOCAB_SIZE = 1000
_STEM_TOKENS = 40
_MOST_NEW_TOKENS = 8
_MOST_STEPS = 20_000
_ARRIVAL_SHARE, _ABORT_SHARE = 0.5, 0.05


def random_prompts(
    source: random.Random, count: int, *, num_stems: int = 4, least_shared: int = 0
) -> list[list[int]]:
    """Returns prompts of which some begin alike, so that they share blocks.

    Args:
        source: Of randomness.
        count: Number of prompts.
        num_stems: Number of different beginnings, 40 tokens each.
        least_shared: Least number of tokens of a beginning that a prompt has.
    """
    stems = [
        [source.randrange(3, _VOCAB_SIZE) for _ in range(_STEM_TOKENS)]
        for _ in range(num_stems)
    ]
    return [
        [
            *source.choice(stems)[: source.randint(least_shared, _STEM_TOKENS)],
            *(source.randrange(3, _VOCAB_SIZE) for _ in range(source.randint(1, 8))),
        ]
        for _ in range(count)
    ]


def run_alone(
    engine: ConnectedCore, prompts: Sequence[list[int]]
) -> dict[int, list[int]]:
    """Returns what each prompt gives in an engine that nothing disturbs."""
    for at, prompt in enumerate(prompts):
        engine.core.add(engine_request(at, prompt, _MOST_NEW_TOKENS))
    return tokens_by_request(engine.run())


def run_disturbed(
    engine: ConnectedCore,
    source: random.Random,
    prompts: Sequence[list[int]],
    check: Callable[[StepOutput], None],
) -> list[StepOutput]:
    """Runs until all prompts have come and the engine rests; some are aborted.

    Args:
        engine: Runs the requests, whose ids are the prompts' indices.
        source: Of when they come, how long they get, and which are aborted.
        prompts: The requests' prompts.
        check: Gets the output of each step.

    Returns:
        The outputs of all steps.
    """
    coming = list(enumerate(prompts))
    outputs: list[StepOutput] = []
    while coming or engine.core.has_work:
        while coming and source.random() < _ARRIVAL_SHARE:
            at, prompt = coming.pop(0)
            num_tokens = source.randint(1, _MOST_NEW_TOKENS)
            engine.core.add(engine_request(at, prompt, num_tokens))
        if source.random() < _ABORT_SHARE:
            gone = source.randrange(len(prompts))
            engine.core.finish([gone], Aborted("gone"))
        if engine.core.has_work:
            outputs.append(engine.step())
            check(outputs[-1])
        assert len(outputs) < _MOST_STEPS
    return outputs
