"""A process seen from outside."""

import subprocess
import sys
from pathlib import Path

from hookline_processes.inspector import ProcessInspector
from hookline_testing.waiting import wait_for_value


def test_a_process_that_is_gone_reads_as_empty(tmp_path: Path) -> None:
    """Nothing raises: the process may end at any moment."""
    inspector = ProcessInspector(2**22 + 1, tmp_path / "stacks")

    inspector.ask_for_stacks()

    assert not inspector.is_stopped
    assert inspector.take_stacks() == ""
    assert str(inspector.pid) in inspector.description


def test_stacks_are_found_after_their_file_was_removed(tmp_path: Path) -> None:
    """A cleaner takes the name, and the process still writes to the file."""
    path = tmp_path / "stacks"
    program = """
import faulthandler, signal, sys, time
file = open(sys.argv[1], "a")
faulthandler.register(signal.SIGUSR1, file)
print("ready", flush=True)
time.sleep(1000)
"""
    with subprocess.Popen(
        [sys.executable, "-c", program, str(path)], stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        inspector = ProcessInspector(process.pid, path)
        path.unlink()

        inspector.ask_for_stacks()
        stacks = wait_for_value(inspector.take_stacks, bool, "it writes none")

        process.kill()
    assert "most recent call first" in stacks
    assert not path.exists()
