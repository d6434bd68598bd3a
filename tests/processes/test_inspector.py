"""A process seen from outside."""

from pathlib import Path

from hookline_processes.inspector import ProcessInspector


def test_a_process_that_is_gone_reads_as_empty(tmp_path: Path) -> None:
    """Nothing raises: the process may end at any moment."""
    inspector = ProcessInspector(2**22 + 1, tmp_path / "stacks")

    inspector.ask_for_stacks()

    assert not inspector.is_stopped
    assert inspector.take_stacks() == ""
    assert str(inspector.pid) in inspector.description
