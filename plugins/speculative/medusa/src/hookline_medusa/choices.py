"""Which tokens of which heads are drafted, as a tree.

A draft is a path: of each head, from the first on, the rank of the token that the head
holds for so likely. The format is that of the public `medusa_choices`: a list of paths,
in which every path but those of one rank goes on from another one.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from hookline.config.speculative import OPTION
from hookline.exceptions import ConfigError
from hookline.spec_decode import MAX_TREE_DRAFTS

Path = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Choices:
    """Paths in order of length, and of one length in that of their ranks."""

    paths: tuple[Path, ...]

    @classmethod
    def parse(cls, given: object) -> Self:
        """What users write.

        Raises:
            ConfigError: It is no tree, or one that is too large.
        """
        if not isinstance(given, Sequence) or isinstance(given, str) or not given:
            raise _wrong("must be a list of paths, such as [[0], [1], [0, 0]]")
        if len(given) > MAX_TREE_DRAFTS:
            raise _wrong(f"has {len(given)} paths, and {MAX_TREE_DRAFTS} are the most")
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
        """Of each draft the index of the one before it; None of first ones."""
        index = {path: at for at, path in enumerate(self.paths)}
        return tuple(index.get(path[:-1]) for path in self.paths)

    @property
    def places(self) -> list[tuple[int, int]]:
        """Of each draft the index of its head, and its rank there."""
        return [(len(path) - 1, path[-1]) for path in self.paths]

    @property
    def ranks(self) -> int:
        """How many of its likeliest tokens each head is asked for."""
        return 1 + max(path[-1] for path in self.paths)

    def check_heads(self, count: int) -> None:
        """Raises `ConfigError` unless there are as many heads as the tree is deep."""
        deepest = self.paths[-1]
        if len(deepest) > count:
            raise _wrong(f"has the path {list(deepest)}, and there are {count} heads")

    def check_vocabulary(self, size: int) -> None:
        """Raises `ConfigError` if a rank is none of so many tokens."""
        if self.ranks > size:
            raise _wrong(f"has the rank {self.ranks - 1}, and there are {size} tokens")


def _path(given: object) -> Path:
    if not isinstance(given, Sequence) or isinstance(given, str) or not given:
        raise _wrong(f"has the path {given!r}, which is no list of ranks")
    for rank in given:
        if isinstance(rank, bool) or not isinstance(rank, int) or rank < 0:
            raise _wrong(f"has the rank {rank!r}, which is no whole number from 0 up")
    return tuple(given)


def _wrong(what: str) -> ConfigError:
    return ConfigError(OPTION, f"medusa_choices {what}")
