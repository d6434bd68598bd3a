"""`hookline replay`: repeats recordings, and tells the first difference."""

import sys
from argparse import Namespace
from bdb import BdbQuit
from pathlib import Path

from hookline.exceptions import ConfigError
from hookline_recording import RecordingError
from hookline_registry import Failure, isolate
from hookline_replay.replaying import Outcome, Replay
from hookline_server.cli.errors import CommandFailedError, UsageError
from hookline_server.cli.options.command_parser import CommandParser
from hookline_server.cli.output import say

DIFFERS = 1


def run(argv: list[str]) -> int:
    """Repeats each recording; with `--strict` a difference is exit status 1."""
    parser = CommandParser(
        prog="hookline replay",
        description="Runs the scheduler again from a recording, without a model, and "
        "compares each plan, preemption, eviction, cache hit and end with what was "
        "recorded. It stops at the first difference, and tells it.",
    )
    parser.add_argument("files", nargs="+", metavar="FILE", help="a recording")
    parser.add_argument(
        "--strict", action="store_true", help="end with status 1 if one differs"
    )
    parser.add_argument(
        "--until", type=int, metavar="STEP", help="stop after this step"
    )
    parser.add_argument(
        "--break",
        dest="breaks",
        action="store_true",
        help="open a debugger just before that step is planned",
    )
    parser.add_argument(
        "--from-checkpoint",
        action="store_true",
        help="begin at the recording's first checkpoint, as one that begins in mid-run "
        "always does",
    )
    given = parser.parse_args(argv)
    if given.breaks and given.until is None:
        raise UsageError("--break needs --until STEP")
    if given.until is not None and len(given.files) > 1:
        raise UsageError("--until takes one recording: steps of others are others")
    differ = [path for path in given.files if _repeat(Path(path), given)]
    return DIFFERS if differ and given.strict else 0


def _repeat(path: Path, given: Namespace) -> bool:
    """Repeats a recording and prints what came of it; returns whether it differs."""
    replay: Replay | None = None

    def planning(step: int) -> None:
        if step == given.until and replay is not None:
            _stop(replay, step)

    try:
        replay = Replay(
            path,
            planning=planning if given.breaks else None,
            from_checkpoint=given.from_checkpoint,
        )
        outcome = isolate(replay.run, given.until)
    except (RecordingError, ConfigError) as error:
        raise CommandFailedError(str(error)) from error
    except OSError as error:
        detail = error.strerror or str(error)
        raise CommandFailedError(f"cannot read {path}: {detail}") from error
    if isinstance(outcome, Failure):
        raise CommandFailedError(_failed(path, replay, outcome)) from outcome.error
    say(_told(path, replay, outcome))
    return outcome.difference is not None


def _told(path: Path, replay: Replay, outcome: Outcome) -> str:
    header = replay.script.header
    begin = replay.script.checkpoint
    since = "" if begin is None else f" from its checkpoint after step {begin.step}"
    repeated = (
        f"{path}: engine {header.engine_index} of {header.model or 'no model'}, "
        f"{outcome.steps} steps of {outcome.requests} requests repeated{since}: "
        f"{outcome.decisions} decisions as recorded"
    )
    lines = [repeated]
    lines += (f"  note: {note}" for note in outcome.notes)
    if outcome.difference is not None:
        lines.append(f"  first difference at {outcome.difference}")
    return "\n".join(lines)


def _failed(path: Path, replay: Replay, failure: Failure) -> str:
    """Tells why a replay ended: the file may be hostile, or the engine's code wrong."""
    if isinstance(failure.error, BdbQuit):
        return "the debugger was left"
    if isinstance(failure.error, RecordingError):
        return str(failure.error)
    return (
        f"cannot repeat {path} beyond step {replay.step}: {failure.summary} "
        f"({failure.place})"
    )


def _stop(replay: Replay, step: int) -> None:
    """Opens a debugger, which has the engine in its frame."""
    core = replay.core
    scheduler = core.scheduler
    queues = scheduler.lifecycle.queues
    say(
        f"before step {step}: {len(queues.running.requests)} running, "
        f"{len(queues.waiting.requests)} waiting, "
        f"{scheduler.cache.pool.num_free} KV blocks free; `core`, `scheduler` and "
        "`queues` are here"
    )
    sys.breakpointhook()  # noqa: T100 - it is what was asked for
