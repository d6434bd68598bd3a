"""Data-parallel backends: their interface, and an end without engines.

A start needs a head node, which only a server has.
"""

from typing import cast

from hookline.config import EngineConfig
from hookline_cluster.machines.engine_nodes import EngineNodes
from hookline_registry import Failure
from hookline_testing.conformance.subject import Subject


def check(subject: Subject) -> None:
    """Opens the nodes, asks after engines that there are not, and closes."""
    made = subject.create(context=EngineConfig())
    if made is None or not subject.has(made, EngineNodes):
        return
    nodes = cast("EngineNodes", made)
    subject.typed(nodes.address, str, "address", type(made))
    subject.call("stop of an engine that has no process", nodes.stop, 0)
    subject.call("release of an engine that has no process", nodes.release, 0)
    ended = subject.call("take_end", nodes.take_end)
    if not isinstance(ended, Failure | None):
        subject.fault("take_end tells an end where no engine was started", type(made))
    subject.call("close", nodes.close)
    subject.call("close, called again,", nodes.close)
