"""The exception of adapters' files."""

from hookline.exceptions import HooklineError


class AdapterError(HooklineError):
    """An adapter that is missing, damaged, not supported, or of another base model.

    Attributes:
        adapter: Its path or name.
        reason: Why it cannot be used, with the tensor or the key that is wrong.
    """

    def __init__(self, adapter: str, reason: str) -> None:
        super().__init__(f"cannot load adapter {adapter!r}: {reason}")
        self.adapter = adapter
        self.reason = reason
