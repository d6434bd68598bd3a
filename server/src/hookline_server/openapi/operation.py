"""What a handler takes and returns, which every route's handler declares."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import Enum
from typing import TypeVar
from weakref import WeakKeyDictionary

from aiohttp import web

Function = Callable[..., Awaitable[web.StreamResponse]]
H = TypeVar("H", bound=Function)


GENERATION_ERRORS = (404, 429, 503)
"""Error statuses of an engine that may be busy or not ready."""


ADMINISTRATION_ERRORS = (409, 503, 504)
"""Error statuses of commands to engines."""


class Tag(Enum):
    """Groups of endpoints, in the document's order."""

    GENERATION = "Generation"
    MODELS = "Models and tokens"
    HEALTH = "Health"
    SERVER = "Server"
    ADMINISTRATION = "Administration"
    PAGES = "Pages of the stat loggers"


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """What a handler takes and returns; the handler's docstring says what it does.

    Attributes:
        tag: The group that it belongs to.
        answer: Message of a successful response, or all possible ones; None if it is
            not JSON.
        body: Message of the request's body, or all possible ones.
        query: Struct of the query's parameters.
        events: Messages of a stream, if the client can ask for one.
        ends_with_done: Whether such a stream ends with `[DONE]`.
        errors: Error statuses, besides those that all such requests can have.
        generates: Whether requests may name their objectives and their session.
        media_type: Media type of a response that is not JSON.
    """

    tag: Tag
    answer: object = None
    body: type | tuple[type, ...] | None = None
    query: type | None = None
    events: tuple[type, ...] = ()
    ends_with_done: bool = True
    errors: tuple[int, ...] = ()
    generates: bool = False
    media_type: str = "*/*"

    @property
    def bodies(self) -> tuple[type, ...]:
        """All messages that the request's body can be."""
        if self.body is None:
            return ()
        return self.body if isinstance(self.body, tuple) else (self.body,)

    @property
    def answers(self) -> tuple[object, ...]:
        """All messages that a successful response can be."""
        if self.answer is None:
            return ()
        return self.answer if isinstance(self.answer, tuple) else (self.answer,)


_OPERATIONS: WeakKeyDictionary[Function, Operation | None] = WeakKeyDictionary()


def described(operation: Operation) -> Callable[[H], H]:
    """Declares what a handler takes and returns."""

    def declare(handler: H) -> H:
        _OPERATIONS[handler] = operation
        return handler

    return declare


def undescribed(handler: H) -> H:
    """Leaves a handler out of the document."""
    _OPERATIONS[handler] = None
    return handler


def operation_of(handler: Function) -> Operation | None:
    """Returns what a handler declares; None if it is left out of the document.

    Raises:
        KeyError: It declares nothing.
    """
    return _OPERATIONS[handler]
