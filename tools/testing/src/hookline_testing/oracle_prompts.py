"""Prompts for small models, whose output is compared with the oracle's."""

import random

_VOCAB_SIZE = 320


def mixed_prompts() -> list[list[int]]:
    """Returns nine prompts of 1 to 60 tokens, some with a common beginning."""
    source = random.Random(3)  # noqa: S311 - it has to be the same each time
    common = [source.randrange(_VOCAB_SIZE) for _ in range(40)]
    lengths = (1, 2, 15, 16, 17, 33, 60)
    alone = [
        [source.randrange(_VOCAB_SIZE) for _ in range(length)] for length in lengths
    ]
    return [*alone, [*common, 5, 6, 7], [*common, 8]]


def short_prompts(count: int = 6) -> list[list[int]]:
    """Returns prompts that begin alike, for as many tokens as a block or so."""
    source = random.Random(3)  # noqa: S311 - it has to be the same each time
    common = [source.randrange(_VOCAB_SIZE) for _ in range(20)]
    return [
        [
            *common[: 5 * (index % 5)],
            *(source.randrange(_VOCAB_SIZE) for _ in range(index + 1)),
        ]
        for index in range(count)
    ]
