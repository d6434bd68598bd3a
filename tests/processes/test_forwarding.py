"""An engine process's log records reach the loggers of the process that owns it."""

import logging
import os

import pytest

from hookline_processes.log_forwarding import (
    MAX_FIELD_LENGTH,
    ForwardingHandler,
    RecordReceiver,
)


def test_records_arrive_as_they_were(caplog: pytest.LogCaptureFixture) -> None:
    """Logger, level, message, traceback and process of a record are kept."""
    read, write = os.pipe()
    handler = ForwardingHandler(write)
    receiver = RecordReceiver(os.fdopen(read, "rb"), "engine 3")
    logger = logging.Logger("hookline.of_the_engine")  # noqa: LOG001 - unlike the owner's
    logger.addHandler(handler)

    with caplog.at_level(logging.INFO):
        logger.info("step %d\nwas slow", 7, extra={"request_id": "r", "seconds": 0.5})
        try:
            raise ValueError("no such step")  # noqa: TRY301
        except ValueError:
            logger.exception("it failed")
        handler.close()
        os.close(write)
        receiver.close(10)

    slow, failed = caplog.records
    assert (slow.name, slow.levelname) == ("hookline.of_the_engine", "INFO")
    assert slow.getMessage() == "step 7\nwas slow"
    assert vars(slow)["request_id"] == "r"
    assert vars(slow)["seconds"] == 0.5
    assert (slow.processName, slow.created <= failed.created) == ("engine 3", True)
    assert failed.exc_text is not None
    assert failed.exc_text.endswith("ValueError: no such step")


def test_records_of_a_process_of_the_process_have_both_names(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A rank's record passes through its engine's process."""
    read, write = os.pipe()
    handler = ForwardingHandler(write)
    receiver = RecordReceiver(os.fdopen(read, "rb"), "engine 3")
    record = logging.LogRecord("hookline", logging.INFO, "", 1, "hello", (), None)
    record.processName = "rank 1"

    with caplog.at_level(logging.INFO):
        handler.emit(record)
        handler.close()
        os.close(write)
        receiver.close(10)

    assert [each.processName for each in caplog.records] == ["engine 3 rank 1"]


def test_odd_fields_cost_no_other_record(caplog: pytest.LogCaptureFixture) -> None:
    """Many and long fields are cut, and what is not text becomes text if it can."""

    class Mad:
        def __repr__(self) -> str:
            raise ValueError("mad")

    read, write = os.pipe()
    handler = ForwardingHandler(write)
    receiver = RecordReceiver(os.fdopen(read, "rb"), "engine 0")
    logger = logging.Logger("hookline.of_the_engine")  # noqa: LOG001 - unlike the owner's
    logger.addHandler(handler)

    with caplog.at_level(logging.INFO):
        logger.info("many", extra={f"f{n}": n for n in range(100)})
        logger.info(
            "odd \ud800", extra={"one": "\ud800", "two": [1], "three": "x" * 9999}
        )
        logger.info("mad", extra={"field": Mad()})
        handler.close()
        os.close(write)
        receiver.close(10)

    many, odd, mad = caplog.records
    assert sum(name.startswith("f") and name[1:].isdigit() for name in vars(many)) == 32
    assert odd.getMessage() == "odd \\ud800"
    assert (vars(odd)["one"], vars(odd)["two"]) == ("\\ud800", "[1]")
    assert len(vars(odd)["three"]) == MAX_FIELD_LENGTH
    assert vars(mad)["field"] == "<Mad>"


def test_levels_that_the_owner_does_not_want_are_left_out(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The levels of the owner's loggers hold."""
    read, write = os.pipe()
    handler = ForwardingHandler(write)
    receiver = RecordReceiver(os.fdopen(read, "rb"), "engine 0")
    logger = logging.Logger("hookline.of_the_engine")  # noqa: LOG001 - unlike the owner's
    logger.addHandler(handler)

    with caplog.at_level(logging.ERROR, "hookline.of_the_engine"):
        logger.warning("one")
        logger.error("two")
        os.write(write, b"not a record\n")
        handler.close()
        os.close(write)
        receiver.close(10)

    assert [each.getMessage() for each in caplog.records] == ["two"]
