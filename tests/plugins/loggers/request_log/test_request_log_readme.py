"""What the README of the request log promises."""

import dataclasses
import json
import re
import shutil
import subprocess
from pathlib import Path

import msgspec
import pytest

from hookline.config import EngineConfig
from hookline.finish_cause import Rejected
from hookline.payloads import EngineStopped, LoggerContext
from hookline.request import RequestFacts, Slo
from hookline.stats.iteration_stats import IterationStats
from hookline_request_log import RequestLogger, create_stat_logger
from hookline_request_log.options import DEFAULTS
from hookline_request_log.schema import Line
from hookline_testing.payloads import FINISHED, make_step

README = Path(__file__).parents[4] / "plugins/loggers/request_log/README.md"
TEXT = README.read_text("utf-8")
EXAMPLES = re.findall(r"^```sh\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)

MISSED = dataclasses.replace(
    FINISHED, facts=RequestFacts(client_id="a", slo=Slo(e2e=5.0))
)
PREEMPTED = dataclasses.replace(
    FINISHED,
    preempted_seconds=3.5,
    preempted_prefill_seconds=0.5,
    e2e_seconds=5.75,
)
SLOW_FRONT_END = dataclasses.replace(FINISHED, e2e_seconds=60.0)
REJECTED = dataclasses.replace(
    FINISHED,
    cause=Rejected("context_length_exceeded", "too long"),
    queue_seconds=None,
    prefill_seconds=None,
    decode_seconds=None,
    preempted_seconds=0.0,
    e2e_seconds=0.0,
)
needs_jq = pytest.mark.skipif(shutil.which("jq") is None, reason="needs jq")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where a log with all kinds of ends lies."""
    options = {"path": str(tmp_path / "requests.jsonl")}
    logger: RequestLogger = create_stat_logger(
        context=LoggerContext(
            name="request_log", config=EngineConfig(), options=options
        )
    )
    finished = (MISSED, PREEMPTED, SLOW_FRONT_END, REJECTED)
    logger.step_finished(make_step(IterationStats(finished=finished)))
    logger.engine_stopped(EngineStopped(engine_index=0, reason="closed"))
    return tmp_path


def table(heading: str) -> list[str]:
    """First cells of the table with this heading."""
    found = re.search(rf"^\| {heading} \|.*\n\|[-|]+\n((\|.*\n)+)", TEXT, re.MULTILINE)
    assert found is not None
    return re.findall(r"^\| `([^`]+)`", found[1], re.MULTILINE)


def fields(struct: type[msgspec.Struct], prefix: str = "") -> list[str]:
    """Every field that a line may have, in order, with those inside of it.

    An object that is always there has no row of its own.
    """
    found: list[str] = []
    for field in msgspec.structs.fields(struct):
        name = f"{prefix}{field.encode_name}"
        inner = [
            each
            for part in classes_of(field.type)
            if issubclass(part, msgspec.Struct)
            for each in fields(part, f"{name}.")
        ]
        is_always_there = isinstance(field.type, type)
        found += inner if inner and is_always_there else [name, *inner]
    return found


def classes_of(annotation: object) -> list[type]:
    """The classes that a type is made of."""
    if isinstance(annotation, type) and not hasattr(annotation, "__args__"):
        return [annotation]
    arguments = getattr(annotation, "__args__", ())
    return [part for argument in arguments for part in classes_of(argument)]


def test_tables_explain_every_field_and_option() -> None:
    """The tables name what there is, in its order."""
    assert table("field") == fields(Line)
    assert table("option") == list(DEFAULTS)


@needs_jq
@pytest.mark.parametrize("example", EXAMPLES)
def test_questions_have_answers(example: str, folder: Path) -> None:
    """Each command runs and prints something."""
    answer = subprocess.run(
        ["/bin/sh", "-ec", example],
        cwd=folder,
        check=True,
        capture_output=True,
        text=True,
    )

    assert answer.stdout
    assert not answer.stderr


@needs_jq
def test_slowest_requests_name_the_phase_to_blame(folder: Path) -> None:
    """The first question is answered rightly, slowest first."""
    command = ["/bin/sh", "-ec", EXAMPLES[0]]

    answer = subprocess.check_output(command, cwd=folder, text=True)

    assert [json.loads(line) for line in answer.splitlines()] == [
        {"request_id": "a", "seconds": 60, "blame": "front_end"},
        {"request_id": "a", "seconds": 6, "blame": "decode"},
        {"request_id": "a", "seconds": 5.75, "blame": "preempted"},
        {"request_id": "a", "seconds": 0, "blame": "front_end"},
    ]
