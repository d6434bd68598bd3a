"""Ids of a hub's models, as users write them."""

import re
from dataclasses import dataclass
from typing import Self

from hookline.exceptions import ConfigError

MAIN = "main"
_PART = r"[A-Za-z0-9][A-Za-z0-9._-]*"
_ID = re.compile(rf"({_PART}/{_PART})(?:@([^:]+))?(?::({_PART}))?")
_REVISION = re.compile(
    r"[A-Za-z0-9_][A-Za-z0-9_.+-]*(?:/[A-Za-z0-9_][A-Za-z0-9_.+-]*)*"
)
_COMMIT = re.compile(r"[0-9a-f]{40}")


@dataclass(frozen=True, slots=True)
class HubName:
    """A model of a hub.

    Attributes:
        repo: Its id: `org/name`.
        revision: Branch, tag or commit.
        quant: Which of its GGUF files is meant, such as `Q4_K_M`; None for the only
            one, or for the weights as safetensors.
    """

    repo: str
    revision: str = MAIN
    quant: str | None = None

    @classmethod
    def parse(cls, name: str, revision: str | None = None) -> Self | None:
        """Reads `org/name`, with `@revision` and `:quant` perhaps; None if it is none.

        Args:
            name: The name.
            revision: The option `revision`.

        Raises:
            ConfigError: The revision is none, or two differ.
        """
        if (match := _ID.fullmatch(name)) is None:
            return None
        repo, typed, quant = match.groups()
        if typed and revision and typed != revision:
            raise ConfigError("revision", f"is {revision}, but the model is {name}")
        chosen = typed or revision or MAIN
        if not _REVISION.fullmatch(chosen) or ".." in chosen:
            raise ConfigError("revision", f"{chosen!r} is no branch, tag or commit")
        return cls(repo, chosen, quant)

    @property
    def is_commit(self) -> bool:
        """Whether the revision is a commit, which never changes."""
        return is_commit(self.revision)

    @property
    def served_name(self) -> str:
        """The name in the API, without a revision."""
        return self.repo if self.quant is None else f"{self.repo}:{self.quant}"

    def __str__(self) -> str:
        revision = "" if self.revision == MAIN else f"@{self.revision}"
        quant = "" if self.quant is None else f":{self.quant}"
        return f"{self.repo}{revision}{quant}"


def is_commit(text: str) -> bool:
    """Whether a text is the whole hash of a commit."""
    return _COMMIT.fullmatch(text) is not None
