"""The options of `hookline run-batch` that are not the engine's."""

from hookline_server.batch.settings import BATCH, BatchSettings
from hookline_server.cli.options.derived import derived

BATCH_OPTIONS = tuple(derived(BatchSettings, "batch", group=BATCH))

SHORT = {"-i": "--input-file", "-o": "--output-file"}
"""vLLM's short names."""
