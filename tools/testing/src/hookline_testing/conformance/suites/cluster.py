"""Clusters: a client of their engines."""

from typing import cast

from hookline.config import EngineConfig, ExecutorConfig
from hookline.transport.native import EngineProcesses
from hookline_registry import Failure
from hookline_testing.conformance.clients import check_client
from hookline_testing.conformance.subject import Subject


def check(subject: Subject) -> None:
    """Connects, generates and closes."""
    made = subject.create()
    if made is None or not subject.has(made, EngineProcesses):
        return
    config = EngineConfig(executor=ExecutorConfig(name="simulated"))
    connect = cast("EngineProcesses", made).connect
    client = subject.call("connect", connect, config)
    if not isinstance(client, Failure):
        check_client(subject, client)
