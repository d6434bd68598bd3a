"""The grammars that wait to be compiled: clients share the time, quick ones pass."""

from collections import OrderedDict
from dataclasses import dataclass, field
from enum import IntEnum

from hookline.structured_outputs import GrammarKind
from hookline_grammars.spec import GrammarSpec
from hookline_processes.fair_queue import Client, FairQueue

MOST_QUICK = 16
"""Grammars compiled in a row that may be quick while one waits that is not."""
MOST_PAYERS = 4096
"""Payers whose time is remembered."""
_SHORT = 4096
"""Characters of a schema that may look quick."""
_HEAVY = ('"pattern', '"$ref"', '"$dynamicRef"', 'Length"', 'Items"', '"format"')
"""What makes a schema's grammar grow."""


class Pace(IntEnum):
    """How long a grammar may take, as far as that is known; the quickest first."""

    LOOKS_QUICK = 0
    UNKNOWN = 1
    SLOW = 2
    """It has exceeded a first trial."""


@dataclass(frozen=True, slots=True)
class Job:
    """A grammar that waits.

    Attributes:
        key: The specification's key.
        spec: The grammar.
        client: Who pays for it, and for whom.
        pace: How long it may take.
    """

    key: bytes
    spec: GrammarSpec
    client: Client
    pace: Pace

    @property
    def is_trial(self) -> bool:
        """Whether it is given a short time only."""
        return self.pace is not Pace.SLOW


@dataclass(slots=True)
class _Payer:
    """What one payer has.

    Attributes:
        spent: The time that its grammars have taken, on the queue's own clock.
        waiting: Its grammars, by pace; its clients take turns.
    """

    spent: float
    waiting: tuple[FairQueue[Job], ...] = field(
        default_factory=lambda: tuple(FairQueue() for _ in Pace)
    )

    @property
    def is_waiting(self) -> bool:
        return any(each.length for each in self.waiting)

    def first(self, paces: range) -> FairQueue[Job] | None:
        """Returns the line of the quickest of these paces of which something waits."""
        lines = (self.waiting[each] for each in paces)
        return next((line for line in lines if line.length), None)


_QUICK, _SLOW = range(Pace.SLOW), range(Pace.SLOW, Pace.SLOW + 1)


class CompileQueue:
    """Takes the payer whose grammars have taken least time, and its quickest first.

    Grammars that have exceeded a first trial wait for those that have not had one, but
    not for ever. A payer that comes anew has no advantage for its past, and
    none by claiming to be many clients.

    Attributes:
        length: Number of grammars that wait.
    """

    def __init__(self) -> None:
        self.length = 0
        self._payers: OrderedDict[str, _Payer] = OrderedDict()
        self._now = 0.0
        self._num_quick = 0

    def push(self, job: Job) -> None:
        """Adds a grammar behind its client's others of its pace."""
        name, _ = job.client
        payer = self._payers.setdefault(name, _Payer(self._now))
        if not payer.is_waiting:
            payer.spent = max(payer.spent, self._now)
        payer.waiting[job.pace].push(job.client, job)
        self.length += 1

    def pop(self) -> Job:
        """Takes the next grammar.

        Raises:
            IndexError: None waits.
        """
        is_slows_turn = self._num_quick >= MOST_QUICK
        orders = (_SLOW, _QUICK) if is_slows_turn else (_QUICK, _SLOW)
        for paces in orders:
            found = [
                (each.spent, place, line)
                for place, each in enumerate(self._payers.values())
                if (line := each.first(paces)) is not None
            ]
            if found:
                self._now, _, line = min(found, key=lambda each: each[:2])
                self._num_quick = self._num_quick + 1 if paces is _QUICK else 0
                self.length -= 1
                return line.pop()
        raise IndexError("no grammar waits")

    def charge(self, client: Client, seconds: float) -> None:
        """Adds the time that a client's grammar has taken to what its payer has had."""
        payer, _ = client
        if (known := self._payers.get(payer)) is not None:
            known.spent += seconds
            self._payers.move_to_end(payer)  # of equals, the others come first
        if len(self._payers) > MOST_PAYERS:
            self._forget_idle()

    def _forget_idle(self) -> None:
        """Forgets who waits for nothing, those first who have had least time."""
        idle = [name for name, each in self._payers.items() if not each.is_waiting]
        idle.sort(key=lambda name: self._payers[name].spent)
        for name in idle[: len(self._payers) - MOST_PAYERS // 2]:
            del self._payers[name]


def pace_of(spec: GrammarSpec) -> Pace:
    """Returns how long a grammar may take, by its looks."""
    if spec.kind in (GrammarKind.CHOICE, GrammarKind.JSON_OBJECT):
        return Pace.LOOKS_QUICK
    is_plain = (
        spec.kind is GrammarKind.JSON
        and len(spec.source) <= _SHORT
        and not any(each in spec.source for each in _HEAVY)
    )
    return Pace.LOOKS_QUICK if is_plain else Pace.UNKNOWN
