"""`hookline run-batch`: runs the requests of a file."""

import asyncio
import socket
import time
from contextlib import closing
from functools import partial

from hookline.config import EngineConfig
from hookline_server.batch.input_file import InputFile
from hookline_server.batch.life import run_batch
from hookline_server.batch.output_file import OutputFile
from hookline_server.batch.runner import Progress
from hookline_server.batch.settings import BatchSettings
from hookline_server.cli.engine_starter import engine_starter
from hookline_server.cli.errors import UsageError
from hookline_server.cli.options.arguments import engine_config, read_arguments
from hookline_server.cli.options.batch import BATCH_OPTIONS, SHORT
from hookline_server.cli.options.engine import engine_options
from hookline_server.cli.options.loggers import default_loggers
from hookline_server.cli.output import complain, say
from hookline_server.cli.standard_input import close_standard_input
from hookline_server.connections.limits import raise_descriptor_limit
from hookline_server.listening import listen, url
from hookline_server.logs.set_up import set_up_log
from hookline_server.replies.parsers import choose_parsers
from hookline_server.texts.given_template import check_given_template

METRICS_LOGGER = "prometheus"
INTERRUPTED = 130
_OPEN_PER_SEAT = 2
"""Open requests for each that runs, so that the next ones are there in time."""


def run(argv: list[str]) -> int:
    """Runs the batch; returns 0 once every line has its result."""
    raise_descriptor_limit()
    loggers = [each for each in default_loggers() if each == METRICS_LOGGER]
    arguments = read_arguments(
        "run-batch",
        "Runs the requests of a file, in OpenAI's batch format, without a server.",
        [*BATCH_OPTIONS, *engine_options()],
        [SHORT.get(each, each) for each in argv],
        default_loggers=loggers,
        operand="model",
    )
    for needed in ("input_file", "output_file"):
        if f"batch.{needed}" not in arguments.given:
            raise UsageError(f"--{needed.replace('_', '-')} is missing")
    settings = arguments.make("batch", BatchSettings)
    config = engine_config(arguments, in_process=False)
    # Mistakes are found before the model loads.
    check_given_template(config.model.chat_template)
    choose_parsers(settings.replies)
    source = InputFile(settings.input_file, settings.max_body_bytes)
    close_standard_input()  # the source is open, be it /dev/stdin
    with closing(source):
        output = OutputFile(settings.output_file, resume=settings.resume)
        with closing(output):
            return _run(settings, config, source, output)


def _run(
    settings: BatchSettings, config: EngineConfig, source: InputFile, output: OutputFile
) -> int:
    began = time.monotonic()
    log = set_up_log(settings.log_level, settings.log_format)
    with closing(log):
        done = asyncio.run(
            run_batch(
                settings,
                source,
                output,
                most_open=_OPEN_PER_SEAT * config.scheduler.max_num_seqs,
                pages=_pages(settings),
                start_engine=engine_starter(config, log),
                say=complain,
                last=partial(_interrupted, output),
            )
        )
    if done is None:
        return _interrupted(output)
    say(_summary(done, settings, time.monotonic() - began))
    return 0


def _interrupted(output: OutputFile) -> int:
    """Says what is left of a run that a signal has ended, and returns its status."""
    left = "no request was done"
    if output.has_results:
        left = f"{output.part} has the responses so far: go on with --resume"
    complain(f"interrupted; {left}")
    output.close()
    return INTERRUPTED


def _pages(settings: BatchSettings) -> socket.socket | None:
    if not settings.enable_metrics:
        return None
    pages = listen(settings.host, settings.port)
    complain(f"metrics: {url(pages)}/metrics")
    return pages


def _summary(done: Progress, settings: BatchSettings, seconds: float) -> str:
    resumed = f", {done.resumed} done before" if done.resumed else ""
    return (
        f"{settings.output_file}: {done.done} requests in {seconds:.1f} s, "
        f"{done.failed} of them failed{resumed}"
    )
