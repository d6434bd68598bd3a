"""Engine `process`: an engine in a process of its own, over sockets of one user."""

from hookline import hookimpl


@hookimpl
def create_cluster() -> object:
    """Returns what has one engine in a process; imported late, as it imports much."""
    from hookline_process_engine.single_engine import SingleEngine  # noqa: PLC0415

    return SingleEngine()
