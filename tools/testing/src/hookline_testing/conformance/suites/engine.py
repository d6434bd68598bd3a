"""Engine clients: a request from its command to its end."""

from hookline.config import EngineConfig, ExecutorConfig
from hookline_testing.conformance.clients import check_client
from hookline_testing.conformance.subject import Subject


def check(subject: Subject) -> None:
    """Connects, generates and closes."""
    config = EngineConfig(executor=ExecutorConfig(name="simulated"), in_process=True)
    made = subject.create(context=config)
    if made is not None:
        check_client(subject, made)
