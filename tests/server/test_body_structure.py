"""Counting what a JSON body consists of, without decoding it."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hookline.exceptions import LimitError
from hookline.request_limits import JSON_CONTAINERS, JSON_STRINGS, JSON_VALUES
from hookline_server.protocol import body_structure
from hookline_server.protocol.body_structure import (
    UNCHECKED_BYTES,
    check_structure,
    depth,
)

TEXTS = st.text(alphabet='ab"\\[]{},:\n\u00e4\u2028', max_size=8)
BODIES = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXTS,
    lambda inner: st.lists(inner) | st.dictionaries(TEXTS, inner),
    max_leaves=30,
)


def counts(value: Any) -> tuple[int, int, int]:
    """Strings, lists and objects, and commas outside of strings."""
    if isinstance(value, str):
        return 1, 0, 0
    if not isinstance(value, list | dict):
        return 0, 0, 0
    inner = [counts(each) for each in value]
    if isinstance(value, dict):
        inner += [counts(each) for each in value.values()]
    strings = sum(each[0] for each in inner)
    containers = 1 + sum(each[1] for each in inner)
    commas = max(len(value) - 1, 0) + sum(each[2] for each in inner)
    return strings, containers, commas


@settings(deadline=None)
@given(BODIES, st.booleans())
def test_counts_are_exact_for_valid_json(value: Any, is_ascii: bool) -> None:
    """Quotes, brackets and commas inside of strings do not count."""
    body = json.dumps(value, ensure_ascii=is_ascii).encode()

    found = body_structure.count(body)

    strings, containers, commas = counts(value)
    assert (found.strings, found.containers) == (strings, containers)
    assert found.values == commas + containers + 1


@pytest.mark.parametrize(
    ("body", "limit"),
    [
        (b"[" + b"[]," * JSON_CONTAINERS.most + b"[]]", JSON_CONTAINERS),
        (b"[" + b"1," * JSON_VALUES.most + b"1]", JSON_VALUES),
        (b"[" + b'"",' * JSON_STRINGS.most + b'""]', JSON_STRINGS),
        (b"[" * 10**6, JSON_CONTAINERS),
        (b'"' * 10**6, JSON_STRINGS),
    ],
    ids=["lists", "numbers", "strings", "open lists", "quotes"],
)
def test_too_many_are_refused_valid_or_not(body: bytes, limit: Any) -> None:
    """The error has the limit's name."""
    with pytest.raises(LimitError) as caught:
        check_structure(body)

    assert caught.value.limit == limit.name


def test_long_texts_are_not_limited() -> None:
    """Text may contain as many brackets, commas and escaped quotes as it wants."""
    text = '[{"a": [1, 2, 3], "b\\n": {}}],' * 100_000

    check_structure(json.dumps({"prompt": text}).encode())


def test_small_bodies_cannot_exceed_the_limits() -> None:
    """Therefore they are not searched: any byte is at most half of a value."""
    most = UNCHECKED_BYTES // 2

    assert most <= JSON_CONTAINERS.most
    assert most <= JSON_STRINGS.most
    assert most <= JSON_VALUES.most


@pytest.mark.parametrize(
    ("json", "levels"),
    [
        (b"1", 0),
        (b"[]", 1),
        (b'{"a": [1, {"b": []}], "c": {}}', 4),
        (b'["[[[", "{\\"[[", "\\\\", [1]]', 2),
        (b"[" * 100 + b"]" * 100, 8),
    ],
)
def test_depth_is_that_of_lists_and_objects(json: bytes, levels: int) -> None:
    """
    Brackets in strings do not count, nor levels beyond those that matter.
    """
    assert depth(json, 8) == levels
