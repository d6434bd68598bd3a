"""An engine process seen from outside."""

import os
import re
import signal
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from hookline.config import CacheConfig, EngineConfig, ExecutorConfig, ModelConfig
from hookline_process_engine.process_client import ProcessClient
from hookline_testing.oracle import Oracle
from hookline_testing.own_time import Deadline

WAIT_SECONDS = 20.0


@pytest.fixture
def client(llama: Oracle) -> Iterator[ProcessClient]:
    config = EngineConfig(
        model=ModelConfig(model=str(llama.folder)),
        cache=CacheConfig(num_kv_blocks=16),
        executor=ExecutorConfig(name="simulated"),
        in_process=False,
    )
    with closing(ProcessClient(config)) as client:
        yield client


def test_stacks_and_state_of_an_engine(client: ProcessClient) -> None:
    """It writes the stacks of all threads; once stopped, it is seen to be."""
    inspector = client.inspector(0)
    assert inspector is not None
    assert not inspector.is_stopped

    inspector.ask_for_stacks()
    text, deadline = "", Deadline(WAIT_SECONDS)
    while "engine_process.py" not in text:
        assert deadline.is_ahead, text
        time.sleep(0.01)
        text += inspector.take_stacks()
    os.kill(inspector.pid, signal.SIGSTOP)
    while not inspector.is_stopped:
        assert deadline.is_ahead
        time.sleep(0.01)
    description = inspector.description
    inspector.ask_for_stacks()
    pending = Path(f"/proc/{inspector.pid}/status").read_text()
    os.kill(inspector.pid, signal.SIGCONT)

    assert re.search(r"^ShdPnd:\t0+$", pending, re.MULTILINE)  # it would be a danger
    assert text.count("hread 0x") >= 2
    assert "State: T" in description
    assert "hl:engine-0 (T" in description
