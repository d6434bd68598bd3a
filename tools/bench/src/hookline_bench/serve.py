"""`hookline bench serve`: measures a server under load."""

import asyncio
import math
import os
import re
import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
from tqdm import tqdm

from hookline.exceptions import ConfigError
from hookline_bench.client import Client, Endpoint
from hookline_bench.load import Run, drive, open_session, wait_until_ready
from hookline_bench.random_prompts import Prompt, read_tokenizer
from hookline_bench.result_file import serve_fields, serve_path, write_json
from hookline_bench.serve_numbers import serve_numbers
from hookline_bench.serve_report import ServeReport, details
from hookline_bench.serve_settings import ServeSettings
from hookline_bench.server_pages import first_model, page_or_none
from hookline_bench.server_start import started
from hookline_bench.spec_decode import (
    SpecDecodeCounts,
    growth,
    spec_decode_counts,
)
from hookline_bench.workload import Workload, make_workload
from hookline_server.cli.options.arguments import Arguments
from hookline_server.cli.options.derived import derived
from hookline_server.cli.options.parser import make_parser, parse
from hookline_server.cli.output import complain, say

FAILED = 1
MOST_ERRORS = 10
DESCRIPTION = (
    "Measures a server with the OpenAI API under load: one that runs, or one that it "
    "starts with the options of `hookline serve` behind `--`."
)

SERVE_OPTIONS = tuple(derived(ServeSettings, "bench"))

_OBJECTIVE = re.compile(r"\w+:.*")


def run(argv: list[str]) -> int:
    """Measures and reports; returns 1 if no request succeeded."""
    argv, serve_argv = divided(argv)
    parser = make_parser("bench serve", DESCRIPTION, SERVE_OPTIONS)
    given = parse(parser, joined_objectives(argv))
    settings = Arguments(given, ()).make("bench", ServeSettings)
    if serve_argv is None:
        return asyncio.run(_bench(settings))
    if settings.is_addressed:
        raise ConfigError("base-url", "is that of the server which `--` starts")
    with started(serve_argv, settings.start_seconds, os.environ) as server:
        return asyncio.run(_bench(replace(settings, base_url=server.url)))


def divided(argv: Sequence[str]) -> tuple[list[str], list[str] | None]:
    """Returns what precedes `--`, and the options of a server behind it, if any."""
    if "--" not in argv:
        return [*argv], None
    place = argv.index("--")
    return [*argv[:place]], [*argv[place + 1 :]]


def joined_objectives(argv: Sequence[str]) -> list[str]:
    """Joins `--goodput ttft:200 tpot:30` into one value, as other options have."""
    joined: list[str] = []
    for word in argv:
        if len(joined) > 1 and joined[-2] == "--goodput" and _OBJECTIVE.match(word):
            joined[-1] += f",{word}"
        else:
            joined.append(word)
    return joined


async def _bench(settings: ServeSettings) -> int:
    headers = _headers(settings)
    model = settings.model or await first_model(
        settings.root, headers, settings.ready_check_timeout
    )
    tokenizer = settings.tokenizer or model
    source = np.random.default_rng(settings.seed)
    load = make_workload(settings, read_tokenizer(tokenizer), source)
    endpoint = Endpoint(
        url=settings.url,
        backend=settings.backend,
        model=model,
        ignore_eos=settings.ignore_eos,
        has_counts=settings.continuous_usage,
        headers=headers,
        fields=settings.fields,
    )
    async with open_session(settings.proxy) as session:
        client = Client(session, endpoint, time.perf_counter)
        await _prepare(client, settings, load.warmups)
        before = await _speculation(settings)
        run = await _measured(client, settings, load)
        speculation = growth(before, await _speculation(settings))
    report = _report(settings, run, speculation)
    _tell(run, report)
    _save(settings, model, tokenizer, run, report)
    return 0 if report.numbers.completed else FAILED


async def _prepare(
    client: Client, settings: ServeSettings, warmups: Sequence[Prompt]
) -> None:
    first, *others = warmups
    if settings.ready_check_timeout:
        await wait_until_ready(client, first, settings.ready_check_timeout)
    now = [0.0] * len(others)
    await drive(client, others, now, max_concurrency=settings.max_concurrency)


async def _measured(client: Client, settings: ServeSettings, load: Workload) -> Run:
    with tqdm(total=len(load.prompts), disable=settings.disable_tqdm) as bar:
        return await drive(
            client,
            load.prompts,
            load.times,
            max_concurrency=settings.max_concurrency,
            when_done=bar.update,
        )


def _report(
    settings: ServeSettings, run: Run, speculation: SpecDecodeCounts | None
) -> ServeReport:
    rate = settings.arrivals.request_rate
    return ServeReport(
        numbers=serve_numbers(
            run,
            metrics=settings.percentile_metrics,
            percentages=settings.metric_percentiles,
            objectives=settings.goodput,
        ),
        max_concurrency=settings.max_concurrency,
        request_rate=None if math.isinf(rate) else rate,
        speculation=speculation,
    )


def _tell(run: Run, report: ServeReport) -> None:
    errors = [answer.error for answer in run.answers if answer.error is not None]
    for error in list(dict.fromkeys(errors))[:MOST_ERRORS]:
        complain(f"{errors.count(error)} requests failed: {error}")
    say("\n".join(report.lines()))


def _save(
    settings: ServeSettings, model: str, tokenizer: str, run: Run, report: ServeReport
) -> None:
    now = datetime.now(UTC).astimezone()
    count = len(run.answers)
    fields = serve_fields(settings, model, tokenizer, now, num_prompts=count)
    fields |= report.fields()
    detailed = {**fields, **details(run)}
    result = settings.result
    if result.output_json is not None:
        write_json(Path(result.output_json), detailed)
    if result.save_result or result.save_detailed:
        path = serve_path(settings, model, now)
        write_json(path, detailed if result.save_detailed else fields)


def _headers(settings: ServeSettings) -> dict[str, str]:
    key = os.environ.get("OPENAI_API_KEY")
    bearer = {"Authorization": f"Bearer {key}"} if key else {}
    headers = {**bearer, **settings.headers}
    for name, value in headers.items():
        if not (name.isascii() and value.isprintable()):
            raise ConfigError("header", f"{name!r} is not a valid header")
    return headers


async def _speculation(settings: ServeSettings) -> SpecDecodeCounts | None:
    text = await page_or_none(f"{settings.root}/metrics", _headers(settings))
    return None if text is None else spec_decode_counts(text)
