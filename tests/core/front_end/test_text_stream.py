"""Stop strings: found wherever tokens split them, and kept back while in doubt."""

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hookline.frontend.stop_strings import StopSearch
from hookline.frontend.text_stream import TextStream


class Letters:
    """A detokenizer whose tokens are letters; `_` comes with the next one."""

    def __init__(self) -> None:
        self._held = ""

    def push(self, token_ids: Sequence[int]) -> str:
        text = self._held + "".join(map(chr, token_ids))
        self._held = text[len(text.rstrip("_")) :]
        return text.rstrip("_")

    def flush(self) -> str:
        held, self._held = self._held, ""
        return held


def make_stream(
    *stop: str, include_stop: bool = False, min_tokens: int = 0
) -> TextStream:
    return TextStream(
        Letters(),
        StopSearch(stop, include_stop=include_stop) if stop else None,
        min_tokens=min_tokens,
    )


def feed(stream: TextStream, text: str, size: int = 1) -> list[str]:
    """What each piece of the text brings until a stop string ends it."""
    news = []
    for start in range(0, len(text), size):
        news.append(stream.push([ord(char) for char in text[start : start + size]]))
        if stream.stop_reason is not None:
            break
    return news


def test_without_stop_strings_nothing_is_kept_back() -> None:
    """Text comes as it is made."""
    stream = make_stream()

    assert feed(stream, "abc") == ["a", "b", "c"]
    assert stream.flush() == ""


def test_a_stop_string_over_several_tokens_ends_the_text() -> None:
    """The text ends before it, and no part of it was given out."""
    stream = make_stream("STOP")

    assert feed(stream, "go STOP on") == ["g", "o", " ", "", "", "", ""]
    assert stream.stop_reason == "STOP"
    assert stream.flush() == ""


def test_a_partial_stop_string_is_released() -> None:
    """Withheld text is released once it cannot become a stop string."""
    stream = make_stream("abc")

    assert feed(stream, "ababx") == ["", "", "ab", "", "abx"]
    assert stream.stop_reason is None


def test_withheld_text_is_released_at_the_end() -> None:
    """A text that ends with the beginning of a stop string keeps it."""
    stream = make_stream("\n\n")

    assert feed(stream, "line\n") == ["l", "i", "n", "e", ""]
    assert stream.flush() == "\n"


def test_the_earliest_stop_string_wins() -> None:
    """Of several in one piece, the one that begins first ends the text."""
    stream = make_stream("late", "early")

    assert feed(stream, "an early and a late", size=30) == ["an "]
    assert stream.stop_reason == "early"


def test_of_equal_beginnings_the_longest_wins() -> None:
    """Two stop strings that begin at one place: the longer one is meant."""
    stream = make_stream("end", "ending")

    assert feed(stream, "an ending", size=9) == ["an "]
    assert stream.stop_reason == "ending"


def test_the_stop_string_can_be_included() -> None:
    """The text ends behind it."""
    stream = make_stream("STOP", include_stop=True)

    assert "".join(feed(stream, "go STOP on", size=3)) == "go STOP"


def test_text_after_a_stop_string_is_dropped() -> None:
    """Neither later tokens nor the detokenizer's rest add to the text."""
    stream = make_stream(";")

    assert feed(stream, "a;b_", size=4) == ["a"]
    assert stream.push([ord("c")]) == ""
    assert stream.flush() == ""


def test_a_stop_string_in_the_last_bytes_is_found() -> None:
    """What the detokenizer gives out at the very end can complete one."""
    stream = make_stream("x_")

    assert feed(stream, "abx_") == ["a", "b", "", ""]
    assert stream.flush() == ""
    assert stream.stop_reason == "x_"


def test_min_tokens_overlooks_early_stop_strings() -> None:
    """One completed before the least length is text; a later one counts."""
    stream = make_stream("!", min_tokens=4)

    assert feed(stream, "a!b!c") == ["a", "!", "b", ""]
    assert stream.stop_reason == "!"


@settings(max_examples=400, deadline=None, derandomize=True)
@given(
    text=st.text("abc_", max_size=25),
    stop=st.lists(st.text("abc", min_size=1, max_size=4), max_size=3),
    sizes=st.integers(1, 6),
    include_stop=st.booleans(),
)
def test_the_text_ends_before_the_stop_string(
    text: str, stop: list[str], sizes: int, include_stop: bool
) -> None:
    """However the text is split, it ends at a stop string or is complete."""
    stream = make_stream(*stop, include_stop=include_stop)

    found = "".join(feed(stream, text, sizes)) + stream.flush()

    if stream.stop_reason is None:
        assert found == text
        assert not any(word in text for word in stop)
    else:
        end = len(stream.stop_reason)
        before = found[:-end] if include_stop else found
        assert text.startswith(before + stream.stop_reason)
        assert not any(word in before for word in stop)


@pytest.mark.parametrize("size", [1, 2, 3, 50])
def test_min_tokens_and_pieces(size: int) -> None:
    """Only what ends at the least length or later counts, in any pieces."""
    stream = make_stream("ab", "b", "bb", min_tokens=4)

    assert "".join(feed(stream, "abab", size)) == "ab"
    assert stream.stop_reason == "ab"


@pytest.mark.parametrize("size", [1, 2, 3, 50])
def test_an_ignored_early_stop_string_stays_ignored(size: int) -> None:
    """A stop string that was overlooked stays so when a longer one fails to follow."""
    stream = make_stream("!", "!!", min_tokens=3)

    assert "".join(feed(stream, "a!b", size)) == "a!b"
    assert stream.stop_reason is None
