"""Models: a folder with a description that is read."""

from pathlib import Path

from hookline.config import ModelConfig
from hookline_description.describing import describe
from hookline_testing.conformance.subject import Subject


def check(subject: Subject) -> None:
    """Reads the description of the folder."""
    made = subject.create()
    if made is None:
        return
    if not isinstance(made, Path):
        kind = type(made).__name__
        subject.fault(f"it gives {kind}, not a Path", subject.factory)
        return
    for name in ("config.json", "tokenizer.json"):
        if not (made / name).is_file():
            subject.fault(f"{made} has no {name}", subject.factory)
    if not subject.faults:
        subject.call("its description", describe, ModelConfig(model=str(made)))
