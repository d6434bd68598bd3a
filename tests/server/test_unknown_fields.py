"""Fields that the server ignores are counted by name."""

import msgspec
import pytest

from hookline_server.protocol.chat import ChatRequest
from hookline_server.request_body import (
    MAX_NAMES,
    OTHER,
    UNKNOWN_FIELDS,
    UnknownFields,
)
from hookline_testing.scripted_server import FakeEngine, client_of


@pytest.mark.parametrize(
    ("path", "known"),
    [
        ("/v1/completions", {"prompt": "a"}),
        ("/v1/chat/completions", {"messages": [{"role": "user", "content": "a"}]}),
        ("/tokenize", {"prompt": "a"}),
    ],
)
async def test_unknown_fields_are_ignored_and_counted(
    path: str, known: dict[str, object]
) -> None:
    """Each request counts once for each, and its response names them."""
    body = {**known, "model": "fake", "store": True, "metadata": {"a": [1]}}

    async with client_of(FakeEngine()) as client:
        responses = [await client.post(path, json=body) for _ in range(2)]
        assert client.app is not None
        stats = client.app[UNKNOWN_FIELDS].stats()

    assert [each.status for each in responses] == [200, 200]
    for each in responses:
        assert each.headers["X-Hookline-Ignored"] == "field.store, field.metadata"
    assert dict(stats.fields) == {"store": 2, "metadata": 2}


async def test_a_name_that_is_no_text_does_no_harm() -> None:
    """Decoding ignores it, so that it counts without its name."""
    body = b'{"prompt": "a", "\xff": 1}'

    async with client_of(FakeEngine()) as client:
        response = await client.post("/v1/completions", data=body)
        assert client.app is not None
        stats = client.app[UNKNOWN_FIELDS].stats()

    assert response.status == 200
    assert stats.fields == ((OTHER, 1),)


async def test_fields_of_refused_bodies_do_not_count() -> None:
    """What is no request of the API says nothing of what its clients want."""
    async with client_of(FakeEngine()) as client:
        response = await client.post("/v1/completions", json={"store": True})
        assert client.app is not None
        stats = client.app[UNKNOWN_FIELDS].stats()

    assert response.status == 400
    assert stats.fields == ()


def test_names_are_clean_and_few() -> None:
    """Clients cannot make names as they like, nor more than there is room for."""
    fields = UnknownFields()
    names = [f"field {index}" for index in range(2 * MAX_NAMES)]

    for name in ('"}\n b', "x" * 1000, "", *names):
        fields.add(msgspec.json.encode({name: 1}), ChatRequest)
    fields.add(b'{"field 1": 1, "model": "m"}', ChatRequest)

    counts = dict(fields.stats().fields)
    assert [*counts][:4] == ["____b", "x" * 64, "_", "field_0"]
    assert len(counts) == MAX_NAMES + 1
    assert counts["field_1"] == 2
    assert counts[OTHER] == MAX_NAMES + 3


def test_many_names_of_one_body_count_together() -> None:
    """A body of a hundred thousand names costs no more than decoding it."""
    body = ",".join(f'"n{index}":0' for index in range(100_000))
    fields = UnknownFields()

    fields.add(f"{{{body}}}".encode(), ChatRequest)

    counts = dict(fields.stats().fields)
    assert len(counts) == MAX_NAMES + 1
    assert counts[OTHER] == 100_000 - MAX_NAMES
