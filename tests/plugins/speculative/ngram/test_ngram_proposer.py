"""Drafts of the proposer `ngram`, and its invalid options."""

import random
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hookline import SamplingParams
from hookline.exceptions import ConfigError
from hookline_drafting import DraftRequest
from hookline_ngram import NgramOptions
from hookline_ngram.proposer import NgramProposer
from hookline_ngram.suffix_index import SuffixIndex
from hookline_testing.essential import examples
from hookline_testing.own_time import Stopwatch

Int32 = npt.NDArray[np.int32]


def request(
    token_ids: list[int], max_drafts: int = 4, request_id: int = 1
) -> DraftRequest:
    return DraftRequest(
        request_id=request_id,
        token_ids=np.array(token_ids, np.int32),
        max_drafts=max_drafts,
        params=SamplingParams(),
    )


def drafts(token_ids: list[int], max_drafts: int = 4, **options: object) -> list[int]:
    proposer = NgramProposer(NgramOptions(**options))  # type: ignore[arg-type]
    [found] = proposer.propose([request(token_ids, max_drafts)])
    assert found.probabilities is None
    return list(found.token_ids)


def by_rescan(text: list[int], shortest: int, longest: int, *, first: bool) -> int:
    """Where the longest known suffix of a text has stood: the plain way."""
    for length in range(longest, shortest - 1, -1):
        suffix = text[-length:]
        ends = [
            end
            for end in range(length, len(text))
            if text[end - length : end] == suffix
        ]
        if length < len(text) and ends:
            return ends[0] if first else ends[-1]
    return 0


def test_repeated_text_is_continued() -> None:
    """Behind `1 2 3` comes what came there."""
    assert drafts([1, 2, 3, 4, 5, 6, 9, 1, 2, 3], max_drafts=3) == [4, 5, 6]


def test_longest_run_wins() -> None:
    """`2 3` stands behind 7 later, `1 2 3` earlier: the longer one counts."""
    assert drafts([1, 2, 3, 4, 8, 2, 3, 7, 1, 2, 3], max_drafts=1) == [4]


@pytest.mark.parametrize(("match", "token"), [("last", 5), ("first", 4)])
def test_place_can_be_chosen(match: str, token: int) -> None:
    """Of two places where the same run stands, the one that was asked for counts."""
    text = [1, 2, 4, 1, 2, 5, 1, 2]

    assert drafts(text, 1, match=match) == [token]


def test_run_that_is_too_short_is_not_looked_for() -> None:
    """One equal token is not a match of length two."""
    assert drafts([1, 2, 3, 1]) == []
    assert drafts([1, 2, 3, 1], 2, prompt_lookup_min=1) == [2, 3]


def test_looping_text_is_drafted_beyond_its_end() -> None:
    """In a loop of two tokens the requested number is drafted."""
    assert drafts([9, 1, 2, 1, 2], max_drafts=5) == [1, 2, 1, 2, 1]


@pytest.mark.parametrize("text", [[1], [1, 1], [1, 2], [1, 2, 3]])
def test_short_texts_have_no_drafts(text: list[int]) -> None:
    assert drafts(text) == []


@settings(max_examples=examples(300), deadline=None)
@given(
    text=st.lists(st.integers(0, 3), min_size=1, max_size=80),
    cuts=st.sets(st.integers(1, 79), max_size=8),
    shortest=st.integers(1, 3),
    more=st.integers(0, 3),
    first=st.booleans(),
)
def test_index_finds_what_a_rescan_finds(
    text: list[int], cuts: set[int], shortest: int, more: int, *, first: bool
) -> None:
    """However a text grows, its index finds what a full search finds."""
    index = SuffixIndex(shortest, shortest + more, keeps_first=first)
    tokens = np.array(text, np.int32)

    for end in sorted({*(cut for cut in cuts if cut < len(text)), len(text)}):
        found = index.find(tokens[:end])

        expected = by_rescan(text[:end], shortest, shortest + more, first=first)
        assert found == expected


def test_tables_grow_and_stay_right() -> None:
    """Over some thousand tokens of a small alphabet nothing is lost."""
    source = random.Random(4)  # noqa: S311 - a test
    text = [source.randrange(12) for _ in range(3000)]
    tokens, index = np.array(text, np.int32), SuffixIndex(2, 5, keeps_first=False)

    for end in (1, 100, 129, 130, 1000, 1001, 2047, 2048, 2049, 3000):
        assert index.find(tokens[:end]) == by_rescan(text[:end], 2, 5, first=False)


def test_token_costs_the_same_in_a_long_text() -> None:
    """A step behind 200 000 tokens takes no rescan, which would take 100 ms."""
    tokens = np.random.default_rng(1).integers(0, 30_000, 200_100).astype(np.int32)
    index = SuffixIndex(2, 5, keeps_first=False)
    index.find(tokens[:200_000])

    stopwatch = Stopwatch()
    for end in range(200_001, 200_101):
        index.find(tokens[:end])
    took = stopwatch.took()

    assert took.own_seconds / 100 < 0.002


def test_requests_have_an_index_each_until_they_leave() -> None:
    """One request's text is not drafted for another; released requests are dropped."""
    proposer = NgramProposer(NgramOptions())
    known, other = request([1, 2, 3, 1, 2]), request([7, 1, 2], request_id=2)

    first, second = proposer.propose([known, other])
    proposer.release([1, 2, 3])
    again = proposer.propose([request([5, 1, 2], request_id=1)])

    assert (list(first.token_ids), list(second.token_ids)) == ([3, 1, 2, 3], [])
    assert list(again[0].token_ids) == []
    assert set(proposer._indices) == {1}


WRONG: list[Mapping[str, object]] = [
    {"prompt_lookup_maximum": 4},
    {"prompt_lookup_max": 0},
    {"prompt_lookup_max": "5"},
    {"prompt_lookup_max": True},
    {"prompt_lookup_max": 65},
    {"prompt_lookup_min": 5, "prompt_lookup_max": 4},
    {"match": "any"},
    {"match": ["last"]},
]


@pytest.mark.parametrize("given", WRONG, ids=str)
def test_wrong_options_are_refused(given: Mapping[str, object]) -> None:
    """Each names the option `speculative-config` and what is wrong."""
    with pytest.raises(ConfigError) as caught:
        NgramOptions.from_mapping(given)

    assert caught.value.option == "speculative-config"
    assert caught.value.detail


def test_one_length_bounds_the_other() -> None:
    """A longest run below the default shortest one is the shortest one, too."""
    assert NgramOptions.from_mapping({"prompt_lookup_max": 1}).prompt_lookup_min == 1
    assert NgramOptions.from_mapping({"prompt_lookup_min": 8}).prompt_lookup_max == 8
