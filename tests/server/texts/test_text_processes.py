"""Text processes: what they return, and what happens when one of them fails."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from hookline.exceptions import (
    EngineDeadError,
    OverloadedError,
    PromptTooLongError,
    RequestError,
)
from hookline.frontend.text_bounds import TextBounds
from hookline.frozen import EMPTY
from hookline.tokenizer import Tokenizer
from hookline_metrics.front_end_parts import TextQueueName, TextQueueStats
from hookline_processes.frames import frame
from hookline_server.texts import text_queue
from hookline_server.texts.errors import TextLimitError
from hookline_server.texts.messages import Encode, Render
from hookline_server.texts.text_service import SMALL_CHARS, TextService
from hookline_testing.byte_tokenizer import save_byte_tokenizer
from hookline_testing.own_time import Deadline

LOOPS = (
    "{% if messages[0]['content'] == 'loops' %}"
    "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}"
    "{% endif %}{{ messages[0]['content'] }}{{ tools[0].name if tools }}"
)
FRONT_END = """
import asyncio, os, sys, time
from pathlib import Path
sys.path.insert(0, {folder!r})
from test_text_processes import make_service, say

async def main():
    service = make_service(Path(sys.argv[1]))
    asyncio.ensure_future(say(service, "{content}"))
    while not service._queues["chat"]._is_ready:
        await asyncio.sleep(0.01)
    if (child := os.fork()) == 0:
        time.sleep(90)
    print(service._queues["chat"]._process.process.pid, child, flush=True)
    await asyncio.sleep(60)

asyncio.run(main())
"""


def make_service(folder: Path) -> TextService:
    save_byte_tokenizer(folder)
    (folder / "chat_template.jinja").write_text(LOOPS)
    tokenizer = Tokenizer.load(folder)
    return TextService(tokenizer, TextBounds.of(tokenizer, 1024))


@pytest.fixture
async def service(tmp_path: Path) -> AsyncIterator[TextService]:
    made = make_service(tmp_path)
    yield made
    await made.close()
    assert not made._ending


async def say(
    service: TextService, content: str, variables: Mapping[str, object] = EMPTY
) -> list[int]:
    job = Render(
        [{"role": "user", "content": content}],
        dict(variables),
        add_generation_prompt=True,
        continue_final_message=False,
        chat_template=None,
        max_tokens=service._bounds.max_model_len,
        max_chars=service._bounds.max_bytes,
    )
    (token_ids,) = await service.do(job, client=("a", ""))
    return token_ids


async def encode(
    service: TextService, *texts: str, max_tokens: int | None = None
) -> list[list[int]]:
    job = Encode(texts, add_special_tokens=True, max_tokens=max_tokens)
    return await service.do(job, client=("a", ""))


def stats_of(service: TextService, name: TextQueueName) -> TextQueueStats:
    return next(each for each in service.stats().queues if each.queue == name)


async def test_texts_are_tokenized_as_in_this_process(service: TextService) -> None:
    """Short ones and long ones, several at once, conversations."""
    long = "ab \u4e2d" * (SMALL_CHARS // 3)

    assert await encode(service, "a", "", "\u4e2d b") == [
        service._tokenizer.encode(text) for text in ("a", "", "\u4e2d b")
    ]
    assert await encode(service, long) == [service._tokenizer.encode(long)]
    assert await say(service, "Hi") == service._tokenizer.encode("Hi")
    assert [stats_of(service, name).jobs for name in ("text", "chat", "long")] == [
        1,
        1,
        1,
    ]


async def test_a_long_text_is_refused_before_all_of_it_is_tokenized(
    service: TextService,
) -> None:
    """Its first part has too many tokens already."""
    with pytest.raises(PromptTooLongError, match="at least 1025 tokens"):
        await encode(service, "a" * 10 * SMALL_CHARS, max_tokens=1024)


async def test_variables_reach_the_template(service: TextService) -> None:
    """Those that a process cannot get are their request's mistake, and of no other."""

    async def render(name: object) -> list[int]:
        return await say(service, "Hi ", {"tools": [{"name": name}]})

    answers = await asyncio.gather(
        *(render(name) for name in ("f", 2**70, "g")), return_exceptions=True
    )

    first, wrong, last = answers
    assert [first, last] == [
        service._tokenizer.encode(each) for each in ("Hi f", "Hi g")
    ]
    assert isinstance(wrong, RequestError)
    assert "64 bits" in str(wrong)


async def test_a_job_that_loops_fails_alone(service: TextService) -> None:
    """Those behind it are done by the next process; other kinds do not wait."""
    loops = asyncio.ensure_future(say(service, "loops"))
    behind = [asyncio.ensure_future(say(service, f"{n}")) for n in range(20)]
    await encode(service, "a")
    assert not loops.done()

    with pytest.raises(TextLimitError, match="takes too much time"):
        await loops
    answers = await asyncio.gather(*behind)

    assert answers == [service._tokenizer.encode(f"{n}") for n in range(20)]
    assert stats_of(service, "chat").exceeded == 1
    assert stats_of(service, "chat").waiting == 0


async def test_a_process_that_ends_is_replaced(
    service: TextService, caplog: pytest.LogCaptureFixture
) -> None:
    """No client notices if it had nothing to do, and the log has one line of many."""
    await encode(service, "a")
    process = service._queues["text"]._process
    assert process is not None
    os.kill(process.process.pid, signal.SIGKILL)
    while stats_of(service, "text").crashed == 0:  # noqa: ASYNC110 - it has no event
        await asyncio.sleep(0.01)

    assert await encode(service, "b") == [service._tokenizer.encode("b")]
    service._queues["text"]._ended("it ended again")
    assert caplog.text.count("text process text: crashed: ") == 1
    assert "ended again" not in caplog.text


async def test_a_process_that_sends_no_reply_is_replaced(
    service: TextService, caplog: pytest.LogCaptureFixture
) -> None:
    """Its job fails instead of waiting for ever, and the log says why."""
    looping = asyncio.ensure_future(say(service, "loops"))
    queue = service._queues["chat"]
    while queue._process is None:  # noqa: ASYNC110 - it has no event
        await asyncio.sleep(0)

    queue._process.channel._incoming.feed(frame(b"\x01"))  # a number

    with pytest.raises(TextLimitError):
        await looping
    assert "text process chat: crashed: it sent what is no reply" in caplog.text


async def test_a_process_that_cannot_be_started_fails_its_jobs(
    service: TextService,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """They are told at once, and later jobs get a process again."""

    def refuse(*_: object, **__: object) -> None:
        raise BlockingIOError("no more processes")

    with monkeypatch.context() as patched:
        patched.setattr(subprocess, "Popen", refuse)
        with pytest.raises(TextLimitError):
            await encode(service, "a")

    assert stats_of(service, "text").crashed == 1
    assert "text process text: cannot be started: no more processes" in caplog.text
    assert await encode(service, "b") == [service._tokenizer.encode("b")]


@pytest.mark.exhaustive
async def test_a_stopped_process_is_replaced(
    service: TextService, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It uses no processor time, so the clock decides."""
    await encode(service, "a")
    queue = service._queues["text"]
    quick = replace(queue._settings.limits, seconds=0.2)
    monkeypatch.setattr(queue, "_settings", replace(queue._settings, limits=quick))
    assert queue._process is not None
    os.kill(queue._process.process.pid, signal.SIGSTOP)

    with pytest.raises(TextLimitError):
        await encode(service, "b")
    assert await encode(service, "c") == [service._tokenizer.encode("c")]


async def test_the_queue_is_bounded(
    service: TextService, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Too many texts, or too long ones, are for later."""
    monkeypatch.setattr(text_queue, "MAX_WAITING_JOBS", 2)
    loops = [asyncio.ensure_future(say(service, "loops")) for _ in range(10)]
    await asyncio.sleep(0)

    with pytest.raises(OverloadedError, match="waits to be tokenized"):
        await say(service, "Hi")
    monkeypatch.setattr(text_queue, "MAX_WAITING_CHARS", 100)
    with pytest.raises(OverloadedError):
        await encode(service, "a" * 101)

    for each in loops:
        each.cancel()


async def test_invalid_text_is_refused(service: TextService) -> None:
    """A lone surrogate is no text; the next text is."""
    with pytest.raises(RequestError, match="not valid Unicode"):
        await encode(service, "\ud800")
    assert await encode(service, "a") == [service._tokenizer.encode("a")]


async def test_closing_ends_open_jobs(service: TextService) -> None:
    """They fail at once, whatever the process does, and later ones, too."""
    loops = [asyncio.ensure_future(say(service, "loops")) for _ in range(12)]
    await asyncio.sleep(0.3)

    await service.close()

    for each in await asyncio.gather(*loops, return_exceptions=True):
        assert isinstance(each, EngineDeadError)
    with pytest.raises(EngineDeadError):
        await say(service, "Hi")


@pytest.mark.exhaustive
@pytest.mark.parametrize("content", ["loops", "Hi"])
def test_a_text_process_ends_with_its_front_end(tmp_path: Path, content: str) -> None:
    """However that ends, and though a child that it has forked holds its sockets."""
    folder = str(Path(__file__).parent)
    script = FRONT_END.format(folder=folder, content=content)
    with subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path)], stdout=subprocess.PIPE
    ) as front_end:
        assert front_end.stdout is not None
        pid, child = map(int, front_end.stdout.readline().split())
        front_end.kill()

    deadline = Deadline(60)
    while Path(f"/proc/{pid}").exists():
        assert deadline.is_ahead
        time.sleep(0.05)
    os.kill(child, signal.SIGKILL)
