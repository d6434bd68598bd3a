"""The range of the number of engines, as `--autoscale MIN:MAX` gives it."""

import re
from dataclasses import dataclass

_RANGE = re.compile(r"(\d{1,9}):(\d{1,9})")


@dataclass(frozen=True, slots=True)
class EngineRange:
    """The least and the greatest number of engines."""

    minimum: int
    maximum: int

    def __str__(self) -> str:
        return f"{self.minimum}:{self.maximum}"


def read_engine_range(text: str) -> EngineRange:
    """Reads `MIN:MAX`.

    Raises:
        ValueError: It has another form.
    """
    match = _RANGE.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{text!r} is not MIN:MAX, such as 1:4")
    return EngineRange(int(match[1]), int(match[2]))
