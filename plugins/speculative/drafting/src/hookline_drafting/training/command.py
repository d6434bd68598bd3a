"""`hookline train-draft`: trains a draft model."""

import json
import time
from dataclasses import replace

from hookline_description.locating import located
from hookline_drafting.contexts import TrainingReport
from hookline_drafting.training.session import train_draft
from hookline_drafting.training.settings import TrainingSettings
from hookline_server.cli.options.arguments import engine_config, read_arguments
from hookline_server.cli.options.derived import derived
from hookline_server.cli.options.engine import engine_options
from hookline_server.cli.output import say

TRAIN_DRAFT_OPTIONS = tuple(derived(TrainingSettings, "training", group="training"))


def run(argv: list[str]) -> int:
    """Trains a draft model and prints the acceptance of its drafts on held-out data."""
    arguments = read_arguments(
        "train-draft",
        "Trains a draft model for speculative decoding, such as Medusa heads.",
        [*TRAIN_DRAFT_OPTIONS, *engine_options()],
        argv,
        default_loggers=(),
    )
    config = located(engine_config(arguments, in_process=True))
    settings = arguments.make("training", TrainingSettings)
    started = time.monotonic()

    def progress(line: str) -> None:
        say(f"{time.monotonic() - started:6.0f} s  {line}")

    report = train_draft(replace(config, in_process=True), settings, progress)
    say(_summary(report))
    say(_usage(settings))
    return 0


def _summary(report: TrainingReport) -> str:
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
