"""Time budget for trying drafts: a small share of the engine's time, saved up."""

SHARE = 0.01
"""Share of the engine's time that trials may use."""
_START = 1.0
"""Initial balance; it grows by `SHARE` up to this or the price of a dearer trial."""
_MOST_SAVED = 2.0
"""Maximum balance, with the time that drafts have saved."""
_MOST_OWED = 0.6
"""Maximum debt; bounds how long one slow step delays the next trial."""
_CREDIT = 0.5
"""Debt that promising drafts may run up, because they are likely to earn it soon."""
_FIRST_WAIT = 0.25
_MOST_DOUBLED = 5
"""A trial that is estimated to be dear runs once `_FIRST_WAIT` is saved, which doubles
each time: a single slow step may have caused the estimate."""


class TrialBudget:
    """Budget of one engine, in units of the current duration of a step without drafts.

    Attributes:
        balance: Negative if drafts have lost more time than was saved.
    """

    def __init__(self) -> None:
        self.balance = _START
        self._target, self._patience = 0.0, 0
        self._before = self._lowest = 0.0

    def add_steps(self, steps: float, gained: float) -> None:
        """Adds the share of `steps`, and the steps that drafts gained or lost."""
        if self.balance < max(_START, self._target):
            self.balance += SHARE * steps
        most = max(_MOST_SAVED, self._target)
        self.balance = min(max(self.balance + gained, -_MOST_OWED), most)
        self._lowest = min(self._lowest, self.balance)

    def charge(self, steps: float) -> None:
        """Subtracts the duration of a proposer's call, in steps."""
        self.balance -= steps
        self._lowest = min(self._lowest, self.balance)

    @property
    def steps_to_target(self) -> float:
        """Number of steps until the last refused trial can be afforded."""
        return max(0.0, self._target - self.balance) / SHARE

    @property
    def is_spent(self) -> bool:
        """Whether drafts must stop, whatever their estimated gain."""
        return self.balance <= -_CREDIT

    def available(self, *, is_promising: bool) -> float:
        """Returns the maximum price of a trial now, in steps."""
        return self.balance + _CREDIT if is_promising else self.balance

    def affords(self, price: float, *, is_promising: bool) -> bool:
        """Whether a trial with this estimated price, in steps, may run now.

        A refused trial waits until its price is saved, but no longer than twice as long
        as the previous dear one.
        """
        self._target = 0.0
        if self._lowest >= self._before - _FIRST_WAIT:
            # The previous trial cost less than estimated; it may have had no drafts.
            self._patience = 0
        if price <= self.available(is_promising=is_promising):
            self._patience = 0
            return True
        target = min(price, 2**self._patience * _FIRST_WAIT)
        if self.balance < target:
            self._target = target
            return False
        self._before = self._lowest = self.balance
        self._patience = min(self._patience + 1, _MOST_DOUBLED)
        return True
