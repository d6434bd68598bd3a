"""How many of the tokens that a grammar forces are drafted for a request."""

MOST_FORCED = 16
"""Tokens that are drafted at once."""
FIRST_FORCED = 4
"""The same before it is known how the model spells such text: what is not accepted is
computed for nothing."""
_LONGEST_PAUSE = 64
"""Steps."""


class ForcedPace:
    """Adapts to a model that spells forced text by other tokens than the drafts.

    After a step that accepted a part, as many as that and one more are drafted, until
    all are accepted again. Each step that accepted none is followed by a pause of twice
    as many steps as the one before it.

    Attributes:
        most: Number of tokens to draft next.
    """

    def __init__(self, most: int = FIRST_FORCED) -> None:
        """Starts without a pause; `most` is what other requests have come to."""
        self.most = most
        self._pause = 1
        self._left = 0

    def verified(self, accepted: int, drafted: int) -> None:
        """Takes note of a step that verified forced drafts."""
        if accepted == drafted:
            self.most = min(2 * self.most, MOST_FORCED)
        else:
            self.most = accepted + 1
        if accepted:
            self._pause = 1
        else:
            self._left = self._pause
            self._pause = min(2 * self._pause, _LONGEST_PAUSE)

    def is_pausing(self) -> bool:
        """Returns whether nothing is drafted in this step; called once for each."""
        if not self._left:
            return False
        self._left -= 1
        return True
