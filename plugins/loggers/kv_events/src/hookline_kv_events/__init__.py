"""Stat logger `kv_events`: publishes changes of the prefix cache over ZMQ."""

from typing import TYPE_CHECKING

from hookline.moved_modules import lazy_exports

if TYPE_CHECKING:
    from hookline_kv_events.logger import KVEventsLogger, LostBatchesError
    from hookline_kv_events.wire import (
        AllBlocksCleared,
        BlockRemoved,
        BlockStored,
        KVEventBatch,
    )

__all__ = [
    "AllBlocksCleared",
    "BlockRemoved",
    "BlockStored",
    "KVEventBatch",
    "KVEventsLogger",
    "LostBatchesError",
]

__getattr__ = lazy_exports(
    __name__,
    {
        "hookline_kv_events.logger": ("KVEventsLogger", "LostBatchesError"),
        "hookline_kv_events.wire": (
            "AllBlocksCleared",
            "BlockRemoved",
            "BlockStored",
            "KVEventBatch",
        ),
    },
)
