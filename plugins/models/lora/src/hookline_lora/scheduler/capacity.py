"""How many adapters there may be in main memory and in the slots of a step."""

from dataclasses import dataclass
from typing import Self

from hookline.clock import NANOSECONDS
from hookline_lora.config import LoraConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class Capacity:
    """How many adapters there may be where.

    Attributes:
        slots: Adapters with which a step can compute.
        most: Adapters in main memory; None if bytes alone bound them.
        num_bytes: Bytes of main memory; None if the number alone bounds them.
        max_wait_ns: Wait after which a claim is served before others, ns.
    """

    slots: int
    most: int | None
    num_bytes: int | None
    max_wait_ns: int

    @classmethod
    def of(cls, config: LoraConfig) -> Self:
        """Returns what a configuration allows."""
        most = config.max_cpu_loras
        if most is None and config.memory is None:
            most = config.max_loras
        return cls(
            slots=config.max_loras,
            most=most,
            num_bytes=config.memory,
            max_wait_ns=round(config.max_wait * NANOSECONDS),
        )

    def holds(self, number: int, num_bytes: int) -> bool:
        """Returns whether main memory holds so many adapters of so many bytes."""
        if self.most is not None and number > self.most:
            return False
        return self.num_bytes is None or num_bytes <= self.num_bytes

    def can_pin(self, number: int) -> bool:
        """Returns whether so many adapters may stay in main memory.

        One place is left for all others.
        """
        return self.most is None or number < self.most
