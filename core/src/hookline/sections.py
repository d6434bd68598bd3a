"""Sections: the data of extensions, which the core passes on without reading them.

Requests, plans, results, records, events and facts have a mapping of sections by the
extensions' names. In one process a section is passed as it is; between processes it is
encoded like everything around it, and becomes plain data, of which only its reader
knows the type.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

import msgspec

from hookline.frozen import EMPTY

T = TypeVar("T")

Sections = Mapping[str, object]
"""Sections by the names of their extensions; each is a `msgspec.Struct`."""

NO_SECTIONS: Sections = EMPTY


def present(sections: Iterable[tuple[str, object | None]]) -> dict[str, object]:
    """Returns those sections that are not None."""
    return {name: section for name, section in sections if section is not None}


@dataclass(frozen=True, slots=True)
class Section(Generic[T]):
    """The name and the type of a section, for whoever reads it.

    Attributes:
        name: Name of the extension.
        kind: Type of its section: a `msgspec.Struct` or a dataclass.
    """

    name: str
    kind: type[T]

    def read(self, sections: Sections) -> T | None:
        """Returns the extension's section; None if there is none.

        Raises:
            msgspec.ValidationError: It is of another type.
        """
        value = sections.get(self.name)
        return None if value is None else self.typed(value)

    def typed(self, section: object) -> T:
        """Returns a section that may have come from another process.

        Raises:
            msgspec.ValidationError: It is of another type.
        """
        if isinstance(section, self.kind):
            return section
        return msgspec.convert(section, self.kind)
