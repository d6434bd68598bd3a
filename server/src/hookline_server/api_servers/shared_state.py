"""What the parent keeps for all API servers: stored responses and budgets."""

import asyncio
from collections.abc import Sequence

from hookline_server.api_servers.questions import (
    Answer,
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
)
from hookline_server.auth.allowance import OwnAllowance
from hookline_server.auth.budget import Budget
from hookline_server.auth.key_ring import KeyRing
from hookline_server.response_store import ResponseStore, StoredResponse

LATE_SECONDS = 0.05
"""Time in which another server's message, sent before, is certain to be read."""


class SharedState:
    """Answers the servers' questions; for one event loop."""

    def __init__(self, store: ResponseStore, keys: KeyRing) -> None:
        """Starts with what these have."""
        self.store = store
        self._keys = keys
        self._open: dict[tuple[int, int], Sequence[Budget]] = {}

    def take(self, message: Keep | Charge | EndDraw, client: int) -> None:
        """Takes what server `client` tells."""
        now = self._keys.budgets.clock()
        if isinstance(message, Keep):
            self.store.keep(message.entry)
        elif isinstance(message, Charge):
            for budget in self._open.get((client, message.number), ()):
                budget.charge(message.tokens, now)
        else:
            for budget in self._open.pop((client, message.number), ()):
                budget.end()

    async def answer(self, ask: Ask, client: int) -> Answer:
        """Answers a question of server `client`."""
        question = ask.question
        if isinstance(question, Draw):
            return Answer(ask.number, self._draw(question, client, ask.number))
        if isinstance(question, Delete):
            was_there = self.store.delete(question.owner, question.response_id)
            return Answer(ask.number, Deleted(was_there))
        if not (found := self._find(question)):
            await asyncio.sleep(LATE_SECONDS)
            found = self._find(question)
        return Answer(ask.number, Found(found))

    def left(self, client: int) -> None:
        """Closes the requests of a server that has ended."""
        for key in [each for each in self._open if each[0] == client]:
            for budget in self._open.pop(key):
                budget.end()

    def _find(self, question: Chain | Holder) -> list[StoredResponse]:
        if isinstance(question, Chain):
            return list(self.store.chain(question.owner, question.response_id))
        entry = self.store.holder(question.owner, question.item_id)
        return [] if entry is None else [entry]

    def _draw(self, draw: Draw, client: int, number: int) -> Drawn:
        budgets = self._keys.budgets.named(draw.key, draw.tenant)
        allowance = OwnAllowance(budgets, self._keys.budgets.clock)
        if (exceeded := allowance.begin()) is None:
            self._open[client, number] = budgets
        return Drawn(exceeded, allowance.headers())
