"""One stop string, searched in pieces."""

from hypothesis import given, settings
from hypothesis import strategies as st

from hookline.frontend.stop_strings import StopString

TEXT = st.text(alphabet="ab", max_size=30)


@settings(deadline=None)
@given(st.text(alphabet="ab", min_size=1, max_size=6), st.lists(TEXT, max_size=6))
def test_pieces_find_what_the_whole_text_has(stop: str, pieces: list[str]) -> None:
    """The first occurrence ends in the piece, and at the place, where it should."""
    search, text = StopString(stop), "".join(pieces)
    matched, passed, found = 0, 0, None

    for piece in pieces:
        matched, end = search.search(matched, piece)
        if found is None and end is not None:
            found = passed + end
        passed += len(piece)

    begin = text.find(stop)
    assert found == (None if begin < 0 else begin + len(stop))


@settings(deadline=None)
@given(st.text(alphabet="ab", min_size=1, max_size=6), TEXT)
def test_matched_is_the_longest_beginning_that_ends_the_text(
    stop: str, text: str
) -> None:
    """A text that may still become the stop string is not given out."""
    matched, _ = StopString(stop).search(0, text)

    longest = max(length for length in range(len(stop)) if text.endswith(stop[:length]))
    assert matched == longest
