"""One request's bad words, as a tree that is walked backwards from the newest token."""

from collections import defaultdict

import numpy as np

from hookline.engine.worker.input_batch import Int32, Int64

_WINDOW = 16
"""Tokens that are read at a time: most walks end at the first."""


class WordTree:
    """The words by the tokens before their last, the newest first.

    A step follows the output only as far as some word agrees with it, however many
    words there are.

    Attributes:
        always: Tokens that are words by themselves.
    """

    def __init__(self, words: tuple[tuple[int, ...], ...]) -> None:
        self.always: Int64 = np.array(
            sorted({word[0] for word in words if len(word) == 1}), np.int64
        )
        self._depth = max((len(word) for word in words), default=1) - 1
        self._edges: dict[tuple[int, int], int] = {}
        self._endings: defaultdict[int, list[int]] = defaultdict(list)
        for word in words:
            if len(word) > 1:
                self._add(word)

    def _add(self, word: tuple[int, ...]) -> None:
        node = 0
        for token_id in reversed(word[:-1]):
            node = self._edges.setdefault((node, token_id), len(self._edges) + 1)
        self._endings[node].append(word[-1])

    def endings(self, tokens: Int32, num_output_tokens: int) -> list[int]:
        """Returns the tokens that would complete a word; only output counts.

        Args:
            tokens: Prompt and output.
            num_output_tokens: Number of the last tokens that are output.
        """
        found: list[int] = []
        node, end = 0, len(tokens)
        floor = end - min(num_output_tokens, self._depth)
        while end > floor:
            start = max(floor, end - _WINDOW)
            for token_id in reversed(tokens[start:end].tolist()):
                child = self._edges.get((node, token_id))
                if child is None:
                    return found
                node = child
                if node in self._endings:
                    found += self._endings[node]
            end = start
        return found
