"""`hookline train-draft`: trains what guesses tokens for a model."""

import json
import time
from dataclasses import replace
from pathlib import Path

from hookline.draft_training import TrainingSettings, train_draft
from hookline.payloads import TrainingReport
from hookline_server.cli.arguments import engine_config, read_arguments
from hookline_server.cli.engine_options import ENGINE_OPTIONS
from hookline_server.cli.output import say
from hookline_server.cli.parser import UsageError
from hookline_server.cli.train_draft_options import TRAIN_DRAFT_OPTIONS


def run(argv: list[str]) -> int:
    """Trains, and tells how good the drafts are on what was held out."""
    arguments = read_arguments(
        "train-draft",
        "Trains what guesses tokens for a model, such as Medusa heads.",
        [*TRAIN_DRAFT_OPTIONS, *ENGINE_OPTIONS],
        argv,
        default_loggers=(),
    )
    config = engine_config(arguments, in_process=True)
    given = dict(arguments.section("training"))
    for name in ("method", "folder"):
        if name not in given:
            flag = {"folder": "out"}.get(name, name)
            raise UsageError(f"--{flag} is missing")
    texts = tuple(Path(path) for path in arguments.texts("run.data"))
    settings = TrainingSettings(**given, texts=texts)  # type: ignore[arg-type]
    started = time.monotonic()

    def progress(line: str) -> None:
        say(f"{time.monotonic() - started:6.0f} s  {line}")

    report = train_draft(replace(config, in_process=True), settings, progress)
    say(_told(report))
    say(_usage(settings))
    return 0


def _told(report: TrainingReport) -> str:
    drafts = max(1, report.drafts)
    shares = ", ".join(f"{each / drafts:.0%}" for each in report.accepted_by_position)
    return (
        f"held out: {report.drafts} steps with drafts, accepted by position {shares}; "
        f"mean accepted length {report.mean_accepted_length:.2f}"
    )


def _usage(settings: TrainingSettings) -> str:
    chosen = {
        "method": settings.method,
        "num_speculative_tokens": settings.num_speculative_tokens,
        "model": str(settings.folder),
    }
    return f"--speculative-config '{json.dumps(chosen)}'"
