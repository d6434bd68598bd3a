"""The error that kernels raise."""


class KernelError(RuntimeError):
    """No kernel for this shape, dtype or machine; the torch reference does the work."""


class KernelNotKeptError(KernelError):
    """A kernel was compiled for another process, and cannot be written for it."""
