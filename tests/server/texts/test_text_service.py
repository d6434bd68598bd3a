"""Bounds of texts and tokens that are no prompts, and what a request needs."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from hookline.exceptions import EngineDeadError, PromptTooLongError, RequestError
from hookline.frontend.text_bounds import TextBounds
from hookline.tokenizer import Tokenizer
from hookline_server.texts.text_service import MIN_DECODED_TOKENS, TextService
from hookline_testing.byte_tokenizer import save_byte_tokenizer

MAX_MODEL_LEN = 1024


@pytest.fixture
async def service(tmp_path: Path) -> AsyncIterator[TextService]:
    save_byte_tokenizer(tmp_path)
    tokenizer = Tokenizer.load(tmp_path)
    made = TextService(tokenizer, TextBounds.of(tokenizer, MAX_MODEL_LEN))
    yield made
    await made.close()


async def encode(service: TextService, text: str, *, is_prompt: bool) -> list[int]:
    return await service.encode(
        text, add_special_tokens=True, is_prompt=is_prompt, client=("a", "")
    )


async def test_only_a_prompt_has_to_fit(service: TextService) -> None:
    """Other texts may be longer than the context, up to their own bound."""
    longer = "a" * (MAX_MODEL_LEN + 1)

    with pytest.raises(PromptTooLongError):
        await encode(service, longer, is_prompt=True)
    assert len(await encode(service, longer, is_prompt=False)) == MAX_MODEL_LEN + 1
    with pytest.raises(RequestError, match="at most 1048576 can be tokenized"):
        await encode(service, "a" * (2**20 + 1), is_prompt=False)


async def test_tokens_to_detokenize_are_bounded(service: TextService) -> None:
    """One more than the bound is refused; after the end all are."""
    kept = [5] * MIN_DECODED_TOKENS

    text = await service.decode(kept, skip_special_tokens=False)
    assert len(text) == MIN_DECODED_TOKENS
    with pytest.raises(RequestError, match="at most 131072 can be detokenized"):
        await service.decode([*kept, 5], skip_special_tokens=False)

    await service.close()
    with pytest.raises(EngineDeadError):
        await service.decode([5], skip_special_tokens=False)


async def test_forbidden_words_are_tokenized_in_one_job(service: TextService) -> None:
    """Each as it is at the start of a text, and after a space."""
    found = await service.encode_words(("no", " never"), ("a", ""))

    expected = {
        tuple(service._tokenizer.encode(each, add_special_tokens=False))
        for each in ("no", " no", " never")
    }
    assert set(found) == expected
    assert sum(queue.jobs for queue in service.stats().queues) == 1
