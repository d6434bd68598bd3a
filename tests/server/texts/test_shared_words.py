"""Bad words of a request with several prompts."""

from pathlib import Path

from hookline import SamplingParams
from hookline.text.bounds import TextBounds
from hookline.tokenizer import Tokenizer
from hookline_server.texts.text_service import TextService
from hookline_testing.byte_tokenizer import save_byte_tokenizer


async def test_prompts_of_a_request_share_the_tokens_of_its_bad_words(
    tmp_path: Path,
) -> None:
    """They are tokenized once, and again only for other words."""
    save_byte_tokenizer(tmp_path)
    tokenizer = Tokenizer.load(tmp_path)
    service = TextService(tokenizer, TextBounds.of(tokenizer, 64))
    params = SamplingParams(bad_words=("ab", "cd"))
    other = SamplingParams(bad_words=("ab", "ef"))

    def num_jobs() -> int:
        return sum(queue.jobs for queue in service.stats().queues)

    try:
        first = await service.encode_request([1], params, "")
        once = num_jobs()
        second = await service.encode_request([2], params, "")
        still_once = num_jobs()
        third = await service.encode_request([3], other, "")
    finally:
        await service.close()

    expected = tokenizer.encode("ab", add_special_tokens=False)
    for encoded in (first, second, third):
        assert encoded.encode("ab", add_special_tokens=False) == expected
    assert once == still_once
    assert num_jobs() == once + 1
