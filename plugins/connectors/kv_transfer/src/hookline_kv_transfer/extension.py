"""The extension: makes the sides of an engine with a KV connector."""

from collections.abc import Callable, Sequence

from hookline.config import EngineConfig
from hookline.engine.scheduler.extension import SchedulerSide
from hookline.engine.worker.extension import WorkerContext, WorkerSide
from hookline.exceptions import ConfigError
from hookline.payloads import ExtensionContext
from hookline_kv_transfer.config import OPTION, KVTransferConfig
from hookline_kv_transfer.connector import SchedulerConnector
from hookline_kv_transfer.joined_transfers import JoinedTransfers
from hookline_kv_transfer.loading import (
    load_scheduler_connector,
    load_worker_connector,
)
from hookline_kv_transfer.orders import TransferReport
from hookline_kv_transfer.transfers import REPORT, Transfers


class KVTransfer:
    """Makes the sides of an engine, or of a rank in a process of its own."""

    def __init__(
        self,
        config: EngineConfig,
        transfer: KVTransferConfig,
        connector: SchedulerConnector | None,
    ) -> None:
        """Keeps what the sides need.

        Args:
            config: The engine's configuration.
            transfer: That of the transfers.
            connector: The scheduler's side of the connector; None in a rank.
        """
        self._config = config
        self._transfer = transfer
        self._connector = connector

    def scheduler_side(self) -> SchedulerSide:
        """Implements `SchedulerExtension`."""
        assert self._connector is not None, "a rank has no scheduler"
        return Transfers(self._transfer, self._connector)

    def worker_side(self, context: WorkerContext) -> WorkerSide:  # noqa: ARG002
        """Implements `WorkerExtension`: each rank moves the blocks of its own heads.

        Raises:
            ConfigError: As `cache_side`.
        """
        return self.cache_side()

    def cache_side(self) -> WorkerSide:
        """Implements `CacheExtension`.

        Raises:
            ConfigError: The connector is broken, or does not work in ranks.
        """
        from hookline_kv_transfer.worker_side import TransferWorker  # noqa: PLC0415

        connector = load_worker_connector(self._config, self._transfer)
        return TransferWorker(connector, self._config, self._transfer)

    def join_ranks(self, num_ranks: int) -> Callable[[Sequence[object]], object]:
        """Implements `JoinedExtension`."""
        joined = JoinedTransfers(num_ranks)

        def join(sections: Sequence[object]) -> TransferReport:
            return joined.join([REPORT.typed(each) for each in sections])

        return join


def make_extension(context: ExtensionContext) -> KVTransfer:
    """Loads the scheduler's side of the connector, but not in a rank.

    Raises:
        ConfigError: An option is wrong, or the connector is unknown or broken.
    """
    config = context.config
    transfer = KVTransferConfig.from_mapping(context.options)
    if not config.cache.enable_prefix_caching:
        raise ConfigError(
            OPTION,
            "requires enable-prefix-caching: blocks are identified by their hashes",
        )
    connector = None
    if not context.is_rank:
        connector = load_scheduler_connector(config, transfer)
    return KVTransfer(config, transfer, connector)
