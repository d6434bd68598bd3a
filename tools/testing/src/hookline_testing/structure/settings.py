"""What is measured, and the limits: `tests/structure/limits.toml`."""

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec

from hookline_testing.structure.calls import Called

LIMITS = Path("tests/structure/limits.toml")
_LIMIT = re.compile(r'^("(?P<name>[^"]+)" = \{ most = )(?P<most>\d+)', re.MULTILINE)


class Reading(msgspec.Struct, frozen=True):
    """A set of files that one reads.

    Attributes:
        modules: Where one begins.
        lazy: Whether imports inside of functions count, too.
    """

    modules: tuple[str, ...]
    lazy: bool = False


class Limit(msgspec.Struct, frozen=True):
    """The limit of a figure.

    Attributes:
        most: The largest allowed value.
        goal: The value to reach; None for none.
        slack: What the figure may be above the limit without being grown.
    """

    most: int
    goal: int | None = None
    slack: int = 0


class _File(msgspec.Struct, frozen=True):
    core: str
    kernels: tuple[str, ...]
    elsewhere: tuple[str, ...]
    types: tuple[str, ...]
    verbs: tuple[str, ...]
    prompt_ends_at: tuple[str, str]
    reading: dict[str, Reading]
    features: dict[str, tuple[str, ...]]
    limits: dict[str, Limit]


@dataclass(frozen=True, slots=True)
class Settings:
    """The contents of the file.

    Attributes:
        core: Name of the core's import package.
        kernels: Those of the kernels and below, whose lines and calls are apart.
        elsewhere: Folders whose code is not the product's.
        types: Classes whose fields are counted.
        verbs: Names whose definitions are counted.
        prompt_ends_at: The function of the model runner that gets a prompt.
        reading: Sets of files that one reads, by name.
        features: By name, parts of the files and functions that only they need.
        limits: By figure.
    """

    core: str
    kernels: tuple[str, ...]
    elsewhere: tuple[str, ...]
    types: tuple[str, ...]
    verbs: tuple[str, ...]
    prompt_ends_at: Called
    reading: Mapping[str, Reading]
    features: Mapping[str, tuple[str, ...]]
    limits: Mapping[str, Limit]

    @classmethod
    def read(cls, path: Path) -> "Settings":
        """Reads the file.

        Raises:
            msgspec.ValidationError: It has a wrong value, or lacks one.
        """
        file = msgspec.convert(tomllib.loads(path.read_text("utf-8")), _File)
        fields = {name: getattr(file, name) for name in file.__struct_fields__}
        return cls(**fields | {"prompt_ends_at": Called(*file.prompt_ends_at)})


def lowered(text: str, figures: Mapping[str, int]) -> str:
    """Returns the file's text with the limits of figures that have shrunk lowered."""

    def lower(found: re.Match[str]) -> str:
        most = int(found["most"])
        return found[1] + str(min(most, figures.get(found["name"], most)))

    return _LIMIT.sub(lower, text)


def grown(figures: Mapping[str, int], limits: Mapping[str, Limit]) -> list[str]:
    """Returns a sentence about each figure above its limit."""
    return [
        f"{name} is {value}, and was at most {limits[name].most}"
        for name, value in figures.items()
        if value > limits[name].most + limits[name].slack
    ]


def shrunk(figures: Mapping[str, int], limits: Mapping[str, Limit]) -> list[str]:
    """Returns the names of figures that are below their limits."""
    return [name for name, value in figures.items() if value < limits[name].most]
