"""Several plugins behind one Protocol, none of which can harm the others."""

import logging
from collections.abc import Sequence
from functools import partial
from typing import TypeVar, cast

from hookline_registry.isolation import Failure, isolate

Member = TypeVar("Member")

_log = logging.getLogger(__name__)


def as_one(kind: type[Member], members: Sequence[Member]) -> Member:
    """Returns an object that passes calls of a Protocol's methods on to all members.

    A member that raises is logged and left out from then on; neither the others nor the
    caller get to know. Results are dropped.
    """
    return cast("Member", _Group(kind, members))


class _Group:
    """The members of which no call has failed."""

    def __init__(self, kind: type, members: Sequence[object]) -> None:
        self._kind, self._members = kind.__name__.lower(), list(members)
        for method in vars(kind):
            if not method.startswith("_"):
                setattr(self, method, partial(self._call, method))

    def _call(self, method: str, *arguments: object) -> None:
        for member in self._members:
            outcome = isolate(getattr(member, method), *arguments)
            if isinstance(outcome, Failure):
                self._leave_out(member, outcome)

    def _leave_out(self, member: object, failure: Failure) -> None:
        self._members = [each for each in self._members if each is not member]
        _log.error(
            "the %s %s failed and is not called again: %s",
            self._kind,
            type(member).__name__,
            failure.summary,
            exc_info=failure.error,
        )
