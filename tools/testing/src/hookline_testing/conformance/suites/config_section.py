"""Sections of the configuration: their key, and defaults that fit."""

import dataclasses

from hookline.config import EngineConfig
from hookline.config.options import options_of
from hookline.config.sections import ConfigSection
from hookline_registry import Failure
from hookline_testing.conformance.subject import Subject


def check(subject: Subject) -> None:
    """Reads the section of a configuration that sets none of its options."""
    made = subject.create()
    if made is None:
        return
    if not isinstance(made, type) or not issubclass(made, ConfigSection):
        subject.fault("it gives no class of a ConfigSection", subject.factory)
        return
    if not dataclasses.is_dataclass(made):
        subject.fault(f"{made.__name__} is no frozen dataclass", made)
        return
    if (key := getattr(made, "key", None)) != subject.name:
        subject.fault(
            f"its key is {key!r}, and its entry point {subject.name!r}: they are alike",
            made,
        )
    config = EngineConfig()
    section = subject.call("of", made.of, config)
    if isinstance(section, Failure):
        return
    subject.call("check", section.check, config)
    subject.call("derived", section.derived, config)
    for each in options_of(made):
        if not each.spec.help:
            subject.fault(f"the option {each.flag} has no help", made)
