"""Encoded bodies are decoded within the size limit; broken ones are a 400."""

import gzip
import zlib

import pytest

from hookline.finish_cause import Rejected
from hookline_server.settings import ServerSettings
from hookline_testing.scripted_server import FakeEngine, client_of

COMPLETION = "/v1/completions"
BODY = b'{"model": "fake", "prompt": "a"}'
RAW_DEFLATE = zlib.compress(BODY)[2:-4]


@pytest.mark.parametrize(
    ("encoding", "data"),
    [
        ("identity", BODY),
        ("gzip", gzip.compress(BODY, mtime=0)),
        ("GZip", gzip.compress(BODY[:9], mtime=0) + gzip.compress(BODY[9:], mtime=0)),
        ("x-gzip", gzip.compress(BODY, mtime=0)),
        ("deflate", zlib.compress(BODY)),
        ("deflate", RAW_DEFLATE),
    ],
)
async def test_encoded_body_is_decoded(encoding: str, data: bytes) -> None:
    """
    A body in an encoding that HTTP names is served as if it had been sent plain.
    """
    async with client_of(FakeEngine()) as client:
        headers = {"Content-Encoding": encoding}
        response = await client.post(COMPLETION, data=data, headers=headers)

        assert response.status == 200, await response.text()


@pytest.mark.parametrize(
    ("encoding", "data", "message"),
    [
        ("gzip", BODY, "not valid gzip"),
        ("gzip", b"", "not valid gzip"),
        ("gzip", gzip.compress(BODY, mtime=0)[:-9], "ends too early"),
        ("gzip", gzip.compress(BODY, mtime=0) + b"tail", "not valid gzip"),
        ("gzip", gzip.compress(b"", mtime=0) * 100, "more than 16 members"),
        ("deflate", BODY, "not valid deflate"),
        ("br", BODY, "'br' is not supported"),
        ("zstd", BODY, "'zstd' is not supported"),
        ("gzip, gzip", gzip.compress(BODY, mtime=0), "is not supported"),
    ],
)
@pytest.mark.parametrize("path", [COMPLETION, "/v1/chat/completions", "/tokenize"])
async def test_body_that_is_not_as_encoded_is_a_400(
    path: str, encoding: str, data: bytes, message: str
) -> None:
    """
    A body that is not in its Content-Encoding is a 400 in OpenAI's shape.
    """
    engine = FakeEngine()
    async with client_of(engine) as client:
        headers = {"Content-Encoding": encoding}
        response = await client.post(path, data=data, headers=headers)
        error = (await response.json())["error"]

        assert response.status == 400
        assert error["code"] == "invalid_request"
        assert error["type"] == "invalid_request_error"
        assert message in error["message"]
        rejected = [Rejected("invalid_request", error["message"])]
        assert engine.rejected == ([] if path == "/tokenize" else rejected)


async def test_decoded_body_has_the_limit_of_a_plain_one() -> None:
    """
    A small body that inflates beyond the limit is a 413, and is not inflated further.
    """
    settings = ServerSettings(max_body_bytes=1 << 16)
    bomb = gzip.compress(b" " * (64 << 20))
    async with client_of(FakeEngine(), settings) as client:
        headers = {"Content-Encoding": "gzip"}
        response = await client.post(COMPLETION, data=bomb[:65000], headers=headers)
        error = (await response.json())["error"]

        assert response.status == 413
        assert error["code"] == "body_too_large"
