"""Causes of a request's end, on the wire and as labels."""

import msgspec
import pytest

from hookline.events import Finished
from hookline.finish_cause import FinishCause, StoppedByString, StoppedByToken
from hookline.frozen import plain
from hookline.request import FinishReason
from hookline_testing.payloads import CAUSES

ALL: list[FinishCause] = [*CAUSES.values(), StoppedByString("\n\n")]


@pytest.mark.parametrize("cause", ALL, ids=str)
def test_finish_causes_survive_serialization(cause: FinishCause) -> None:
    """Type and fields survive, and numbers stay numbers."""
    event = Finished(7, 123, cause, 5)

    data = msgspec.msgpack.encode(event, enc_hook=plain)

    assert msgspec.msgpack.decode(data, type=Finished) == event


def test_every_reason_has_a_cause() -> None:
    """Clients' finish reasons all come from typed causes."""
    assert set(CAUSES) == set(FinishReason)


def test_labels_are_short_texts() -> None:
    """A stop is named by its token or string; a length needs no more words."""
    assert [each.label for each in ALL] == [
        "0",
        "",
        "client",
        "killed by signal 9",
        "overloaded",
        "",
        "\n\n",
    ]
    assert StoppedByToken(151645).label == "151645"
