"""A short run of the fuzzer against readers of files and messages."""

import logging
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from hookline_faults.fuzzing.file_campaign import QUICK, SLOW
from hookline_faults.fuzzing.file_targets import TARGETS, make_target
from hookline_testing.essential import essential


@pytest.fixture(autouse=True)
def _logging() -> Iterator[None]:
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize(
    "name",
    essential([*QUICK, *SLOW], *({*QUICK, *SLOW} - {"recording"}), slow=["recording"]),
)
def test_mutated_content_is_read_or_refused(name: str, tmp_path: Path) -> None:
    """
    A reader of a mutated file raises only the errors that it documents.
    """
    target = make_target(name, tmp_path)
    source = random.Random(19)  # noqa: S311 - the same each time
    outcomes = set()

    for content in target.right:
        target.read(content)
    for _ in range(40 if name in QUICK else 4):
        try:
            target.read(target.mutate(source.choice(target.right), source))
        except target.errors as error:
            outcomes.add(type(error))

    assert outcomes or name == "messages"  # a bad message is dropped


def test_every_target_has_its_share() -> None:
    """
    `make fuzz` reads every target.
    """
    assert sorted(TARGETS) == sorted([*SLOW, *QUICK])
