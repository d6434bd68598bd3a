"""The life of a batch: start an engine, run all requests, report, end."""

import asyncio
import socket
import time
from collections.abc import Callable
from contextlib import suppress

from aiohttp import web

from hookline.exceptions import EngineDeadError
from hookline_server.batch.input_file import InputFile
from hookline_server.batch.output_file import OutputFile
from hookline_server.batch.runner import BatchRunner, Progress
from hookline_server.batch.server import batch_server
from hookline_server.batch.settings import BatchSettings
from hookline_server.batch.window import Window
from hookline_server.dialects import EMBEDDINGS_PATH, MESSAGES_PATH, POOLING_PATH
from hookline_server.engine import ServingEngine
from hookline_server.serving import StartEngine, started
from hookline_server.sites import stop_on_signals

URLS = frozenset(
    {
        "/v1/chat/completions",
        "/v1/completions",
        "/v1/responses",
        EMBEDDINGS_PATH,
        MESSAGES_PATH,
        POOLING_PATH,
    }
)
"""What a line's `url` may be."""

OPEN_BYTES = 256 * 1024 * 1024
REPORT_SECONDS = 10.0

Say = Callable[[str], None]


async def run_batch(
    settings: BatchSettings,
    source: InputFile,
    output: OutputFile,
    *,
    most_open: int,
    pages: socket.socket | None,
    start_engine: StartEngine,
    say: Say,
    last: Callable[[], int],
) -> Progress | None:
    """Runs a batch until it is complete or a signal arrives.

    Args:
        settings: The settings.
        source: The requests.
        output: The results; committed if the batch is complete.
        most_open: Maximum number of requests that are open at once.
        pages: Listening socket for the loggers' pages; None serves none.
        start_engine: Starts the engine.
        say: Takes a line about the progress, now and then.
        last: Called if a signal ends the process while the engine starts; returns the
            exit status.

    Returns:
        What was done; None if a signal ended it before.

    Raises:
        CommandFailedError: The output cannot be written.
        EngineDeadError: The engine has failed; the results so far are kept.
    """
    stopping = stop_on_signals()
    engine = await started(start_engine, stopping, last=last)
    if engine is None:
        return None
    try:
        async with batch_server(engine, settings.of_server, pages) as (app, session):
            window = Window(most_open, OPEN_BYTES)
            runner = BatchRunner(session, _urls(app), source, output, window)
            is_complete = await _until_done(runner, engine, stopping, say)
    finally:
        await engine.close()
    if not is_complete:
        return None
    await asyncio.to_thread(output.commit)
    return runner.progress


def _urls(app: web.Application) -> frozenset[str]:
    """Returns the paths of requests that this server has."""
    served = {each.canonical for each in app.router.resources()}
    return URLS & served


async def _until_done(
    runner: BatchRunner, engine: ServingEngine, stopping: asyncio.Event, say: Say
) -> bool:
    """Returns whether the batch is complete; False if a signal has come."""
    work = asyncio.create_task(runner.run())
    reports = asyncio.create_task(_report(runner.progress, say))
    others = [asyncio.create_task(each.wait()) for each in (stopping, engine.failed)]
    try:
        await asyncio.wait((work, *others), return_when=asyncio.FIRST_COMPLETED)
        if work.done():
            work.result()
            return True
        if engine.failed.is_set():
            raise EngineDeadError(engine.failure or "it has failed")
        return False
    finally:
        for task in (work, reports, *others):
            task.cancel()
        with suppress(asyncio.CancelledError):
            await work


async def _report(progress: Progress, say: Say) -> None:
    began = time.monotonic()
    while True:
        await asyncio.sleep(REPORT_SECONDS)
        seconds = time.monotonic() - began
        say(
            f"{progress.done} requests done in {seconds:.0f} s, {progress.failed} of "
            "them failed"
        )
