"""What the parent keeps for all API servers: stored responses and budgets."""

import asyncio
from collections.abc import Sequence
from typing import get_args

from hookline_server.api_servers.questions import (
    Answer,
    AnyAnswer,
    Ask,
    Chain,
    Charge,
    Delete,
    Deleted,
    Draw,
    Drawn,
    EndDraw,
    Found,
    Holder,
    Keep,
    LookAtScale,
    Scale,
    Scaled,
    ScaleSeen,
)
from hookline_server.api_servers.scaling_errors import (
    ScalingError,
    ScalingRefused,
    refusal_of,
)
from hookline_server.auth.allowance import OwnAllowance
from hookline_server.auth.budget import Budget
from hookline_server.auth.key_ring import KeyRing
from hookline_server.engine_number import EngineNumber
from hookline_server.response_store import ResponseStore, StoredResponse

LATE_SECONDS = 0.05
"""Time in which another server's message, sent before, is certain to be read."""


class SharedState:
    """Answers the servers' questions; for one event loop."""

    def __init__(
        self, store: ResponseStore, keys: KeyRing, scaling: EngineNumber
    ) -> None:
        """Starts with what these have."""
        self.store = store
        self._keys = keys
        self._scaling = scaling
        self._open: dict[tuple[int, int], Sequence[Budget]] = {}

    def on_message(self, message: Keep | Charge | EndDraw, client: int) -> None:
        """Takes what server `client` tells."""
        now = self._keys.budgets.clock()
        if isinstance(message, Keep):
            self.store.keep(message.entry)
        elif isinstance(message, Charge):
            for budget in self._open.get((client, message.number), ()):
                budget.charge(message.tokens, now)
        else:
            for budget in self._open.pop((client, message.number), ()):
                budget.close_request()

    async def answer(self, ask: Ask, client: int) -> Answer:
        """Answers a question of server `client`."""
        return Answer(ask.number, await self._answer(ask, client))

    async def _answer(self, ask: Ask, client: int) -> AnyAnswer:
        match ask.question:
            case Draw() as draw:
                return self._draw(draw, client, ask.number)
            case Delete(owner, response_id):
                return Deleted(self.store.delete(owner, response_id))
            case Scale(number, drain_seconds):
                return await self._scale(number, drain_seconds)
            case LookAtScale():
                return ScaleSeen(await self._scaling.report())
            case Chain() | Holder() as question:
                return await self._found(question)

    async def _scale(
        self, number: int, drain_seconds: float
    ) -> Scaled | ScalingRefused:
        """Changes the number of engines, even if the server ends meanwhile."""
        try:
            state = await self._scaling.scale(number, drain_seconds=drain_seconds)
        except get_args(ScalingError) as error:
            return refusal_of(error)
        return Scaled(state)

    async def _found(self, question: Chain | Holder) -> Found:
        if not (found := self._find(question)):
            await asyncio.sleep(LATE_SECONDS)
            found = self._find(question)
        return Found(found)

    def left(self, client: int) -> None:
        """Closes the requests of a server that has ended."""
        for key in [each for each in self._open if each[0] == client]:
            for budget in self._open.pop(key):
                budget.close_request()

    def _find(self, question: Chain | Holder) -> list[StoredResponse]:
        if isinstance(question, Chain):
            return list(self.store.chain(question.owner, question.response_id))
        entry = self.store.holder(question.owner, question.item_id)
        return [] if entry is None else [entry]

    def _draw(self, draw: Draw, client: int, number: int) -> Drawn:
        budgets = self._keys.budgets.named(draw.key, draw.tenant)
        allowance = OwnAllowance(budgets, self._keys.budgets.clock)
        if (exceeded := allowance.open_request()) is None:
            self._open[client, number] = budgets
        return Drawn(exceeded, allowance.headers())
