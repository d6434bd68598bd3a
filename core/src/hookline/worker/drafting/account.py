"""What trying drafts may cost: a small share of the time, saved up and paid back."""

SHARE = 0.01
"""Of the time may go into trying out."""
_AT_FIRST = 1.0
"""In the account at first, and by pay alone, unless the next trial is dearer …"""
_MOST_SAVED = 2.0
"""… and with what drafts have gained."""
_MOST_OWED = 0.6
"""What can have to be paid back before the next trial: a slow step is no reason to wait
for long."""
_CREDIT = 0.5
"""What drafts that promise something may owe: they are likely to earn it soon."""
_FIRST_WAIT = 0.25
_MOST_DOUBLED = 5
"""A trial that seems dear is made when so much could be paid, which doubles each time:
what made it seem so may have been one slow step."""


class Account:
    """Of one engine; in steps without drafts, whatever such a step takes at present.

    Attributes:
        left: Below 0 where drafts have lost more than was saved.
    """

    def __init__(self) -> None:
        self.left = _AT_FIRST
        self._wanted, self._patience = 0.0, 0
        self._before = self._lowest = 0.0

    def enter(self, steps: float, gained: float) -> None:
        """Takes in so many steps, and what they gained or lost by drafts."""
        if self.left < max(_AT_FIRST, self._wanted):
            self.left += SHARE * steps
        most = max(_MOST_SAVED, self._wanted)
        self.left = min(max(self.left + gained, -_MOST_OWED), most)
        self._lowest = min(self._lowest, self.left)

    def charge(self, steps: float) -> None:
        """Takes out what asking took."""
        self.left -= steps
        self._lowest = min(self._lowest, self.left)

    @property
    def waiting(self) -> float:
        """Steps until a trial that was not afforded can be paid for."""
        return max(0.0, self._wanted - self.left) / SHARE

    @property
    def is_spent(self) -> bool:
        """Whether drafts have to end, whatever they promise."""
        return self.left <= -_CREDIT

    def room(self, *, is_promising: bool) -> float:
        """What a trial may cost now."""
        return self.left + _CREDIT if is_promising else self.left

    def affords(self, price: float, *, is_promising: bool) -> bool:
        """Whether a trial that costs about so much may be made now.

        One that is dearer than what is left waits until its price is saved, or, if it
        would be a long wait, twice as long as the last dear one.
        """
        self._wanted = 0.0
        if self._lowest >= self._before - _FIRST_WAIT:
            # The last one was not that dear: it may have had no drafts at all.
            self._patience = 0
        if price <= self.room(is_promising=is_promising):
            self._patience = 0
            return True
        wanted = min(price, 2**self._patience * _FIRST_WAIT)
        if self.left < wanted:
            self._wanted = wanted
            return False
        self._before = self._lowest = self.left
        self._patience = min(self._patience + 1, _MOST_DOUBLED)
        return True
