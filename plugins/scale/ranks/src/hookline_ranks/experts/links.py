"""What an engine inherits of the memory that engines with common experts share."""

import msgspec


class ExpertLinks(msgspec.Struct, frozen=True, kw_only=True):
    """The links of one engine, as descriptors that it inherits.

    Its ranks inherit the first one from it.

    Attributes:
        tokens: Memory in which all ranks exchange tokens and results.
        steps: Memory in which engines tell which step they compute.
        bells: Each engine's bell, in their order.
        index: Index of this engine among them.
    """

    tokens: int
    steps: int
    bells: tuple[int, ...]
    index: int

    @property
    def descriptors(self) -> tuple[int, ...]:
        """Everything to inherit."""
        return self.tokens, self.steps, *self.bells

    @property
    def num_engines(self) -> int:
        """Number of engines that share the experts."""
        return len(self.bells)
