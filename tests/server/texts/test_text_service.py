"""Bounds of texts and tokens that are no prompts, and what a request needs."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from hookline.exceptions import EngineDeadError, PromptTooLongError, RequestError
from hookline.sampling_params import SamplingParams
from hookline.text.bounds import TextBounds
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
        text, add_special_tokens=True, is_prompt=is_prompt, client="a"
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


async def test_all_texts_of_a_request_are_tokenized(service: TextService) -> None:
    """The prompt, and the spellings of each bad word."""
    params = SamplingParams(bad_words=("no", " never"))

    found = await service.encode_request("Hi", params, "a")

    assert found.encode("Hi") == list(service._tokenizer.encode("Hi"))
    for spelling in ("no", " no", " never"):
        ids = found.encode(spelling, add_special_tokens=False)
        assert ids == service._tokenizer.encode(spelling, add_special_tokens=False)


async def test_a_prompt_of_token_ids_needs_no_text_process(
    service: TextService,
) -> None:
    """None is started for it."""
    await service.encode_request([1, 2, 3], SamplingParams(), "a")

    assert all(queue.jobs == 0 for queue in service.stats().queues)
    assert all(each._process is None for each in service._pool._queues.values())
