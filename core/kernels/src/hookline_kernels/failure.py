"""The error that kernels raise."""


class KernelError(RuntimeError):
    """No kernel for this shape, dtype or machine; the torch reference does the work."""
