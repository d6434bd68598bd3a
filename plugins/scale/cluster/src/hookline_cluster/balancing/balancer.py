"""The interface of load balancing."""

from collections.abc import Sequence
from typing import Protocol

from hookline.events import CacheChanges
from hookline.payloads import EngineFacts
from hookline.request import GenerateRequest
from hookline_cluster.balancing.choice import Choice
from hookline_server.turns import Turns


class Candidate(Protocol):
    """An engine that may be chosen."""

    @property
    def index(self) -> int:
        """Its index, unique among the engines."""
        ...

    @property
    def load(self) -> int:
        """Its load, in running requests."""
        ...


class Balancer(Protocol):
    """Chooses among engines; for one thread."""

    def choose(
        self, candidates: Sequence[Candidate], request: GenerateRequest
    ) -> Choice:
        """Returns the choice for a request, which is then sent.

        Args:
            candidates: Two or more engines.
            request: The request.
        """
        ...

    def sent(self, engine_index: int, request: GenerateRequest) -> None:
        """Takes note of a request for which nothing was chosen, such as a client's."""
        ...

    def cache_changed(self, engine_index: int, changes: CacheChanges) -> None:
        """Takes note of changes of an engine's prefix cache, if engines report them."""
        ...

    def cache_lost(self, engine_index: int) -> None:
        """Takes note that an engine has nothing cached any more."""
        ...

    def joined(self, engine_index: int, facts: EngineFacts) -> None:
        """Takes note of a new engine, perhaps in the place of one that has ended."""
        ...

    def left(self, engine_index: int) -> None:
        """Takes note that an engine is gone."""
        ...


class BlindBalancer:
    """Base of balancers that ignore what engines have cached."""

    def __init__(self) -> None:
        self._turns: Turns[int] = Turns()

    def sent(self, engine_index: int, request: GenerateRequest) -> None:
        pass

    def cache_changed(self, engine_index: int, changes: CacheChanges) -> None:
        pass

    def cache_lost(self, engine_index: int) -> None:
        pass

    def joined(self, engine_index: int, facts: EngineFacts) -> None:
        pass

    def left(self, engine_index: int) -> None:
        pass
