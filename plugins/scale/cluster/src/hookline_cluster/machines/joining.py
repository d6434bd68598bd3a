"""Decides whether a process of another machine may be an engine."""

from collections.abc import Mapping

from hookline import __version__
from hookline.config import EngineConfig
from hookline_cluster.machines.link_messages import Join, Refused
from hookline_cluster.machines.local_options import contradiction
from hookline_cluster.machines.remote_engine import RemoteEngine


class NodeAdmission:
    """The head node's conditions.

    Args:
        config: Its configuration.
        engines: The engines of other machines.
        model_digest: Digest of its model's folder.
    """

    def __init__(
        self,
        config: EngineConfig,
        engines: Mapping[int, RemoteEngine],
        model_digest: str,
    ) -> None:
        self._config = config
        self._remotes = engines
        self._model_digest = model_digest

    def refusal(self, engine_index: int, join: Join) -> Refused | None:
        """Returns why a process cannot be an engine; None if it can."""
        if (engine := self._remotes.get(engine_index)) is None:
            shown = ", ".join(map(str, self._remotes))
            reason = f"the engines of other machines are {shown}"
            return Refused(reason, is_final=True)
        if (mismatch := self._mismatch(join)) is not None:
            return Refused(mismatch, is_final=True)
        if (occupancy := engine.occupancy) is not None:
            return Refused(occupancy, is_final=False)
        return None

    def _mismatch(self, join: Join) -> str | None:
        if join.version != (own := __version__):
            return f"it has version {join.version}, the head node {own}"
        if join.model_digest != self._model_digest:
            return (
                f"its model is another one: its files have the digest "
                f"{join.model_digest}, those of the head node {self._model_digest}"
            )
        return contradiction(self._config, join.given)
