"""The fields that every request for the engine has, whatever it generates or embeds."""

from typing import Protocol


class EngineRequest(Protocol):
    """The fields that all endpoints treat alike."""

    @property
    def model(self) -> str | None: ...
    @property
    def stream(self) -> bool | None: ...
    @property
    def priority(self) -> int | None: ...
    @property
    def cache_salt(self) -> str | None: ...
    @property
    def session_id(self) -> str | None: ...
    @property
    def kv_transfer_params(self) -> dict[str, object] | None: ...
