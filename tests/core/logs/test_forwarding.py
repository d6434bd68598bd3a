"""An engine process's log records reach the loggers of the process that owns it."""

import logging
import os

import pytest

from hookline.logs.forwarding import ForwardingHandler, RecordReceiver


def test_records_arrive_as_they_were(caplog: pytest.LogCaptureFixture) -> None:
    """Logger, level, message, traceback and process of a record are kept."""
    read, write = os.pipe()
    handler = ForwardingHandler(write)
    receiver = RecordReceiver(os.fdopen(read, "rb"), "engine 3")
    logger = logging.Logger("hookline.of_the_engine")  # noqa: LOG001 - unlike the owner's
    logger.addHandler(handler)

    with caplog.at_level(logging.INFO):
        logger.info("step %d\nwas slow", 7)
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
    assert (slow.processName, slow.created <= failed.created) == ("engine 3", True)
    assert failed.exc_text is not None
    assert failed.exc_text.endswith("ValueError: no such step")


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
