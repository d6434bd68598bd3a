"""Memory that processes share; it has no name, and goes with the last of them."""

import mmap
import os


def make_memory() -> int:
    """Returns the descriptor of new memory, whose size the first user sets."""
    return os.memfd_create("hookline-ranks")


class SharedMemory:
    """Anonymous memory, mapped into each process that inherits its descriptor.

    Attributes:
        descriptor: Descriptor to pass on; -1 once it is closed.
        view: Its bytes, zero at first.
    """

    def __init__(self, size: int, descriptor: int | None = None) -> None:
        """Makes new memory, or maps that of an inherited descriptor.

        Args:
            size: Bytes; the same in all processes.
            descriptor: The inherited descriptor; None makes new memory.
        """
        if descriptor is None:
            descriptor = make_memory()
        os.ftruncate(descriptor, size)
        self.descriptor = descriptor
        self._map = mmap.mmap(descriptor, size)
        self.view = memoryview(self._map)

    def close_descriptor(self) -> None:
        """Closes the descriptor, once nobody is to inherit it; the memory stays."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1
