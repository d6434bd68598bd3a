"""Tables that logits processors build once for a request."""

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from hookline.engine.worker.input_batch import InputBatch, Int64
from hookline.engine.worker.sampling.logits_processor import SampledPositions
from hookline_processors.scatter import CellCache
from hookline_processors.shared import Shared
from hookline_processors.word_tree import WordTree

TOKENS = st.integers(0, 3)
WORDS = st.lists(st.lists(TOKENS, min_size=1, max_size=40).map(tuple), max_size=8)


def at_rows(*rows: int) -> SampledPositions:
    return SampledPositions(
        indices=np.arange(len(rows)),
        rows=np.array(rows, np.int64),
        ends=np.ones(len(rows), np.int64),
        nodes=None,
        batch=InputBatch(4, 8, 4),
    )


def test_completions_of_a_prompt_share_what_is_made_of_their_parameters() -> None:
    """It is made again only for another object, or once nobody needs it any more."""
    made: list[tuple[int, ...]] = []

    def make(ids: tuple[int, ...]) -> int:
        made.append(ids)
        return len(made)

    shared = Shared(make)
    first, second = (1, 2, 3), (1, 2, 4)

    values = [shared.of(first), shared.of(first), shared.of(second)]
    shared.clear()

    assert values == [1, 1, 2]
    assert shared.of(second) == 3


def test_cells_are_kept_while_positions_do_not_change() -> None:
    """Other rows, cleared ids and logits with another layout need new ones."""
    cache, logits = CellCache(), torch.zeros(2, 6)
    ids: dict[int, Int64] = {0: np.array([1, 2]), 3: np.array([5])}

    first = cache.cells(at_rows(0, 3), ids, logits)

    assert cache.cells(at_rows(0, 3), ids, torch.ones(2, 6)) is first
    assert cache.cells(at_rows(0, 3), ids, torch.zeros(2, 8)[:, :6]) is not first
    second = cache.cells(at_rows(3, 0), ids, logits)
    assert second is not first
    cache.clear()
    assert cache.cells(at_rows(3, 0), ids, logits) is not second


def test_bans_leave_other_logits_alone_in_padded_rows() -> None:
    """Rows may be parts of longer ones."""
    padded = torch.zeros(3, 8)
    ids: dict[int, Int64] = {
        0: np.array([1, 4]),
        1: np.array([], np.int64),
        2: np.array([0]),
    }

    CellCache().cells(at_rows(0, 1, 2), ids, padded[:, :5]).ban(padded[:, :5])

    assert padded.isneginf().nonzero().tolist() == [[0, 1], [0, 4], [2, 0]]


@settings(deadline=None)
@given(WORDS, st.lists(TOKENS, min_size=1, max_size=60), st.integers(0, 60))
def test_bad_words_end_as_a_search_for_each_finds(
    words: list[tuple[int, ...]], tokens: list[int], num_output_tokens: int
) -> None:
    """The tree has the last tokens of all words whose others end the output."""
    num_output_tokens = min(num_output_tokens, len(tokens))
    output = tokens[len(tokens) - num_output_tokens :]
    tree = WordTree(tuple(words))

    found = tree.endings(np.array(tokens, np.int32), num_output_tokens)

    expected = [
        word[-1]
        for word in words
        if 1 < len(word) <= len(output) + 1
        and tuple(output[len(output) - len(word) + 1 :]) == word[:-1]
    ]
    assert sorted(found) == sorted(expected)
    assert tree.always.tolist() == sorted({word[0] for word in words if len(word) == 1})
