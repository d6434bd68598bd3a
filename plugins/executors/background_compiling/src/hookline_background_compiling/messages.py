"""What a process that compiles kernels reports."""

import msgspec


class KernelCompiled(msgspec.Struct, frozen=True, tag=True):
    """A kernel was compiled, or could not be.

    Attributes:
        variant: Its name in the cache.
        seconds: How long it took.
        succeeded: Whether it is in the cache now.
    """

    variant: str
    seconds: float
    succeeded: bool


class CompilationEnded(msgspec.Struct, frozen=True, tag=True):
    """All kernels that the configuration needs were looked at.

    Attributes:
        folder: The cache.
        kernels: What computes the engine's steps, in one line.
    """

    folder: str
    kernels: str


class CompilationRefused(msgspec.Struct, frozen=True, tag=True):
    """Nothing can be compiled for this configuration.

    Attributes:
        reason: Why, in one sentence.
    """

    reason: str


CompilerMessage = KernelCompiled | CompilationEnded | CompilationRefused
