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
from hookline_server.texts.pool import SMALL_CHARS, TextPool
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
from test_text_pool import make_pool, say

async def main():
    pool = make_pool(Path(sys.argv[1]))
    asyncio.ensure_future(say(pool, "{content}"))
    while not pool._queues["chat"]._is_ready:
        await asyncio.sleep(0.01)
    if (child := os.fork()) == 0:
        time.sleep(90)
    print(pool._queues["chat"]._process.process.pid, child, flush=True)
    await asyncio.sleep(60)

asyncio.run(main())
"""


def make_pool(folder: Path) -> TextPool:
    save_byte_tokenizer(folder)
    (folder / "chat_template.jinja").write_text(LOOPS)
    tokenizer = Tokenizer.load(folder)
    return TextPool(tokenizer, TextBounds.of(tokenizer, 1024))


@pytest.fixture
async def pool(tmp_path: Path) -> AsyncIterator[TextPool]:
    made = make_pool(tmp_path)
    yield made
    await made.close()
    assert not made._ending


async def say(
    pool: TextPool, content: str, variables: Mapping[str, object] = EMPTY
) -> list[int]:
    return await pool.render_chat(
        [{"role": "user", "content": content}],
        variables=variables,
        add_generation_prompt=True,
        client="a",
        max_tokens=pool._bounds.max_model_len,
        max_chars=pool._bounds.max_bytes,
    )


async def encode(
    pool: TextPool, *texts: str, max_tokens: int | None = None
) -> list[list[int]]:
    return await pool.encode(
        texts, add_special_tokens=True, client="a", max_tokens=max_tokens
    )


def stats_of(pool: TextPool, name: TextQueueName) -> TextQueueStats:
    return next(each for each in pool.stats.queues if each.queue == name)


async def test_texts_are_tokenized_as_in_this_process(pool: TextPool) -> None:
    """Short ones and long ones, several at once, conversations."""
    long = "ab \u4e2d" * (SMALL_CHARS // 3)

    assert await encode(pool, "a", "", "\u4e2d b") == [
        pool._tokenizer.encode(text) for text in ("a", "", "\u4e2d b")
    ]
    assert await encode(pool, long) == [pool._tokenizer.encode(long)]
    assert await say(pool, "Hi") == pool._tokenizer.encode("Hi")
    assert [stats_of(pool, name).jobs for name in ("text", "chat", "long")] == [1, 1, 1]


async def test_a_long_text_is_refused_before_all_of_it_is_tokenized(
    pool: TextPool,
) -> None:
    """Its first part has too many tokens already."""
    with pytest.raises(PromptTooLongError, match="at least 1025 tokens"):
        await encode(pool, "a" * 10 * SMALL_CHARS, max_tokens=1024)


async def test_variables_reach_the_template(pool: TextPool) -> None:
    """Those that a process cannot get are their request's mistake, and of no other."""

    async def render(name: object) -> list[int]:
        return await say(pool, "Hi ", {"tools": [{"name": name}]})

    answers = await asyncio.gather(
        *(render(name) for name in ("f", 2**70, "g")), return_exceptions=True
    )

    first, wrong, last = answers
    assert [first, last] == [pool._tokenizer.encode(each) for each in ("Hi f", "Hi g")]
    assert isinstance(wrong, RequestError)
    assert "64 bits" in str(wrong)


async def test_a_job_that_loops_fails_alone(pool: TextPool) -> None:
    """Those behind it are done by the next process; other kinds do not wait."""
    loops = asyncio.ensure_future(say(pool, "loops"))
    behind = [asyncio.ensure_future(say(pool, f"{n}")) for n in range(20)]
    await encode(pool, "a")
    assert not loops.done()

    with pytest.raises(TextLimitError, match="takes too much time"):
        await loops
    answers = await asyncio.gather(*behind)

    assert answers == [pool._tokenizer.encode(f"{n}") for n in range(20)]
    assert stats_of(pool, "chat").exceeded == 1
    assert stats_of(pool, "chat").waiting == 0


async def test_a_process_that_ends_is_replaced(
    pool: TextPool, caplog: pytest.LogCaptureFixture
) -> None:
    """No client notices if it had nothing to do, and the log has one line of many."""
    await encode(pool, "a")
    process = pool._queues["text"]._process
    assert process is not None
    os.kill(process.process.pid, signal.SIGKILL)
    while stats_of(pool, "text").crashed == 0:  # noqa: ASYNC110 - it has no event
        await asyncio.sleep(0.01)

    assert await encode(pool, "b") == [pool._tokenizer.encode("b")]
    pool._queues["text"]._ended("it ended again")
    assert caplog.text.count("text process text: crashed: ") == 1
    assert "ended again" not in caplog.text


async def test_a_process_that_sends_no_reply_is_replaced(
    pool: TextPool, caplog: pytest.LogCaptureFixture
) -> None:
    """Its job fails instead of waiting for ever, and the log says why."""
    looping = asyncio.ensure_future(say(pool, "loops"))
    queue = pool._queues["chat"]
    while queue._process is None:  # noqa: ASYNC110 - it has no event
        await asyncio.sleep(0)

    queue._process._channel._incoming.feed(frame(b"\x01"))  # a number

    with pytest.raises(TextLimitError):
        await looping
    assert "text process chat: crashed: it sent what is no reply" in caplog.text


async def test_a_process_that_cannot_be_started_fails_its_jobs(
    pool: TextPool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """They are told at once, and later jobs get a process again."""

    def refuse(*_: object, **__: object) -> None:
        raise BlockingIOError("no more processes")

    with monkeypatch.context() as patched:
        patched.setattr(subprocess, "Popen", refuse)
        with pytest.raises(TextLimitError):
            await encode(pool, "a")

    assert stats_of(pool, "text").crashed == 1
    assert "text process text: cannot be started: no more processes" in caplog.text
    assert await encode(pool, "b") == [pool._tokenizer.encode("b")]


@pytest.mark.exhaustive
async def test_a_stopped_process_is_replaced(
    pool: TextPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It uses no processor time, so the clock decides."""
    await encode(pool, "a")
    queue = pool._queues["text"]
    quick = replace(queue._settings.limits, seconds=0.2)
    monkeypatch.setattr(queue, "_settings", replace(queue._settings, limits=quick))
    assert queue._process is not None
    os.kill(queue._process.process.pid, signal.SIGSTOP)

    with pytest.raises(TextLimitError):
        await encode(pool, "b")
    assert await encode(pool, "c") == [pool._tokenizer.encode("c")]


async def test_the_queue_is_bounded(
    pool: TextPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Too many texts, or too long ones, are for later."""
    monkeypatch.setattr(text_queue, "MAX_WAITING_JOBS", 2)
    loops = [asyncio.ensure_future(say(pool, "loops")) for _ in range(10)]
    await asyncio.sleep(0)

    with pytest.raises(OverloadedError, match="waits to be tokenized"):
        await say(pool, "Hi")
    monkeypatch.setattr(text_queue, "MAX_WAITING_CHARS", 100)
    with pytest.raises(OverloadedError):
        await encode(pool, "a" * 101)

    for each in loops:
        each.cancel()


async def test_invalid_text_is_refused(pool: TextPool) -> None:
    """A lone surrogate is no text; the next text is."""
    with pytest.raises(RequestError, match="not valid Unicode"):
        await encode(pool, "\ud800")
    assert await encode(pool, "a") == [pool._tokenizer.encode("a")]


async def test_closing_ends_open_jobs(pool: TextPool) -> None:
    """They fail at once, whatever the process does, and later ones, too."""
    loops = [asyncio.ensure_future(say(pool, "loops")) for _ in range(12)]
    await asyncio.sleep(0.3)

    await pool.close()

    for each in await asyncio.gather(*loops, return_exceptions=True):
        assert isinstance(each, EngineDeadError)
    with pytest.raises(EngineDeadError):
        await say(pool, "Hi")


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
