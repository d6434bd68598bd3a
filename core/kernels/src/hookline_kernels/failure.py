"""What kernels raise."""


class KernelError(RuntimeError):
    """A kernel cannot be had on this machine; its reference does the same work."""
