"""KV connector `shared_storage`: KV blocks in files shared by engines."""

from hookline.hookspecs import hookimpl
from hookline_kv_transfer import ConnectorContext
from hookline_shared_storage.options import StorageOptions
from hookline_shared_storage.rank_stores import RankStores
from hookline_shared_storage.reading import BlockReaders
from hookline_shared_storage.save_state import SaveState
from hookline_shared_storage.scheduler_side import SchedulerSide
from hookline_shared_storage.store import BlockStore, DamagedError
from hookline_shared_storage.worker_side import WorkerSide

__all__ = [
    "BlockReaders",
    "BlockStore",
    "DamagedError",
    "RankStores",
    "SaveState",
    "SchedulerSide",
    "StorageOptions",
    "WorkerSide",
    "create_kv_connector",
]


@hookimpl
def create_kv_connector(context: ConnectorContext) -> SchedulerSide | WorkerSide:
    """Raises `ConfigError` for an unknown or invalid option."""
    options = StorageOptions.from_mapping(context.options)
    if context.role == "scheduler":
        return SchedulerSide(options)
    return WorkerSide(options)
