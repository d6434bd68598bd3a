"""Model families: the name of an attention, and modules that call it."""

from typing import cast

from hookline_models.family import ModelFamily
from hookline_testing.conformance.subject import Subject


def check(subject: Subject) -> None:
    """Takes the family and has it prepare a small model."""
    made = subject.create()
    if made is None or not subject.has(made, ModelFamily):
        return
    family = cast("ModelFamily", made)
    subject.typed(family.attention, str, "attention", type(made))
    from hookline_testing.conformance.small_model import small_model  # noqa: PLC0415

    subject.call("replace_attention", family.replace_attention, small_model())
