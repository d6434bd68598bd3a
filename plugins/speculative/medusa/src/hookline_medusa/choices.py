"""The tree of drafts, in the public format of `medusa_choices`.

A draft is a path: for each head, from the first on, the rank of its token, 0 being the
most likely. A tree is a list of paths, in which each path longer than one extends
another.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from hookline.config.extensions import SPECULATIVE_OPTION as OPTION
from hookline.exceptions import ConfigError
from hookline_drafting import MAX_TREE_DRAFTS

Path = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Choices:
    """Paths sorted by length, then by ranks."""

    paths: tuple[Path, ...]

    @classmethod
    def parse(cls, given: object) -> Self:
        """Parses the option.

        Raises:
            ConfigError: It is not a tree, or too large.
        """
        if not isinstance(given, Sequence) or isinstance(given, str) or not given:
            raise _wrong("must be a list of paths, such as [[0], [1], [0, 0]]")
        if len(given) > MAX_TREE_DRAFTS:
            raise _wrong(f"has {len(given)} paths, more than {MAX_TREE_DRAFTS}")
        paths = sorted(
            (_path(each) for each in given), key=lambda each: (len(each), each)
        )
        known = set(paths)
        for index, path in enumerate(paths):
            if path in paths[:index]:
                raise _wrong(f"has the path {list(path)} twice")
            if len(path) > 1 and path[:-1] not in known:
                raise _wrong(f"has the path {list(path)}, but not {list(path[:-1])}")
        return cls(tuple(paths))

    @property
    def parents(self) -> tuple[int | None, ...]:
        """Index of each draft's parent; None for drafts of the first head."""
        index = {path: at for at, path in enumerate(self.paths)}
        return tuple(index.get(path[:-1]) for path in self.paths)

    @property
    def places(self) -> list[tuple[int, int]]:
        """Index of each draft's head, and its rank there."""
        return [(len(path) - 1, path[-1]) for path in self.paths]

    @property
    def ranks(self) -> int:
        """Number of most likely tokens needed from each head."""
        return 1 + max(path[-1] for path in self.paths)

    def check_heads(self, count: int) -> None:
        """Raises `ConfigError` if the tree is deeper than the number of heads."""
        deepest = self.paths[-1]
        if len(deepest) > count:
            raise _wrong(f"has the path {list(deepest)}, and there are {count} heads")

    def check_vocabulary(self, size: int) -> None:
        """Raises `ConfigError` if a rank exceeds the vocabulary."""
        if self.ranks > size:
            raise _wrong(f"has the rank {self.ranks - 1}, and there are {size} tokens")


def _path(given: object) -> Path:
    if not isinstance(given, Sequence) or isinstance(given, str) or not given:
        raise _wrong(f"has the path {given!r}, which is not a list of ranks")
    for rank in given:
        if isinstance(rank, bool) or not isinstance(rank, int) or rank < 0:
            raise _wrong(
                f"has the rank {rank!r}, which is not a whole number from 0 up"
            )
    return tuple(given)


def _wrong(what: str) -> ConfigError:
    return ConfigError(OPTION, f"medusa_choices {what}")
