"""Hashes in a recording are equal where the prefix cache would share a block."""

import pytest

from hookline.clock import VirtualClock
from hookline.config import CacheConfig
from hookline.engine.kv_cache.manager import KVCacheManager
from hookline.request import GenerateRequest, Request
from hookline_recording.hashing import DIGEST_BYTES, PromptHasher
from hookline_recording.schema import Header
from hookline_testing.simulation import engine_request

BLOCK = 4
HASHER = PromptHasher(Header(block_size=BLOCK, salt=b"salt"), "sha256")
PROMPT = list(range(3, 14))


def cached_hashes(inner: GenerateRequest) -> list[bytes]:
    """The hashes by which the prefix cache looks for a prompt."""
    cache = KVCacheManager(CacheConfig(block_size=BLOCK), 16, VirtualClock())
    request = Request(inner, sequence=1, queued_at=0, max_tokens=1)
    cache.find_prefix(request)
    return request.block_hashes


@pytest.mark.parametrize("lora", [None, "one", "two"])
@pytest.mark.parametrize("cache_salt", [None, "mine"])
def test_a_prompts_hashes_are_those_of_the_cache(
    lora: str | None, cache_salt: str | None
) -> None:
    """Salted, and of all that the cache tells apart: adapters and salts."""
    inner = engine_request(1, PROMPT, lora=lora, cache_salt=cache_salt)
    other = engine_request(2, PROMPT, lora="three", cache_salt=cache_salt)

    found = HASHER.of_prompt(inner)

    assert found == HASHER.salted(cached_hashes(inner))
    assert len(found) == 2 * DIGEST_BYTES
    assert found != HASHER.of_prompt(other)


def test_a_prompt_that_cannot_be_hashed_has_none() -> None:
    """The engine refuses it, and the recording goes on."""
    assert HASHER.of_prompt(engine_request(1, [1 << 70] * 9)) == b""
    assert HASHER.of_prompt(engine_request(1, PROMPT, cache_salt="\ud800")) == b""
