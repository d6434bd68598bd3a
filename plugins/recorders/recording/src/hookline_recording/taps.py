"""The taps `flight_recorder` and `record`: a ring, and files of `--record`."""

import logging
import os
import secrets
from pathlib import Path

import msgspec

from hookline import hookimpl
from hookline.clock import NANOSECONDS
from hookline.config.engine import path_of_engine
from hookline.engine.commands import SCHEMA_VERSION
from hookline.engine.tap import TapContext
from hookline.exceptions import ConfigError
from hookline.frozen import plain
from hookline_recording.config import MIB, Content, RecordingConfig
from hookline_recording.folder import keep_what_was_left
from hookline_recording.hashing import PromptHasher
from hookline_recording.recorder import Recorder
from hookline_recording.scheduling import scheduling_of
from hookline_recording.schema import Header
from hookline_recording.stores import LEAST_RING_BYTES, FileStore, RingStore

_DEFAULT_BYTES = 64 * MIB
_log = logging.getLogger(__name__)


class FlightRecorder:
    """Makes the ring that an engine has by default."""

    @hookimpl
    def create_tap(self, context: TapContext) -> Recorder | None:
        """Returns the recorder; None if it is off, or there is no place for a ring."""
        config = RecordingConfig.of(context.config)
        capacity = config.flight_recorder_bytes
        if capacity is None:
            capacity = 0 if context.config.in_process else _DEFAULT_BYTES
        if not capacity:
            return None
        try:
            keep_what_was_left(config.flight_recorder_keep)
            header = header_of(context, config.flight_recorder_content)
            store = RingStore(max(capacity, LEAST_RING_BYTES), header)
        except OSError as error:
            _log.warning("there is no flight recorder: %s", error)
            return None
        _log.debug("flight recorder: %s", store.path)
        return _recorder(store, header, context)


class FileRecorder:
    """Makes the recorder of `--record`."""

    @hookimpl
    def create_tap(self, context: TapContext) -> Recorder | None:
        """Returns the recorder if a file is named.

        Raises:
            ConfigError: The file cannot be written.
        """
        config = RecordingConfig.of(context.config)
        if config.record is None:
            return None
        path = Path(path_of_engine(config.record, context.config.engine_index))
        header = header_of(context, Content.TOKENS)
        try:
            store = FileStore(path, config.record_max_bytes, header)
        except OSError as error:
            detail = f"cannot write {path}: {error.strerror}"
            raise ConfigError("record", detail) from error
        return _recorder(store, header, context)


def header_of(context: TapContext, content: Content) -> Header:
    """Describes the engine."""
    config, facts, clock = context.config, context.facts, context.clock
    in_process = config.in_process
    return Header(
        wire_version=SCHEMA_VERSION,
        hookline=facts.version,
        engine_index=config.engine_index,
        pid=os.getpid(),
        owner_pid=os.getpid() if in_process else os.getppid(),
        model=facts.model_name,
        config_hash=facts.config_hash,
        block_size=facts.block_size,
        num_kv_blocks=facts.model.num_kv_blocks,
        max_num_seqs=facts.max_num_seqs,
        max_num_batched_tokens=facts.max_num_batched_tokens,
        executor=facts.executor,
        content=content,
        salt=secrets.token_bytes(16),
        wall=clock.wall,
        monotonic=clock.monotonic,
        heartbeat_ns=round(config.observers.heartbeat_seconds * NANOSECONDS),
        facts=msgspec.json.encode(facts, enc_hook=plain),
        config=msgspec.json.encode(config, enc_hook=plain)
        if content is Content.TOKENS
        else b"",
        scheduling=msgspec.msgpack.encode(scheduling_of(context)),
    )


def _recorder(
    store: RingStore | FileStore, header: Header, context: TapContext
) -> Recorder:
    hasher = PromptHasher(header, context.config.cache.hash_algorithm)
    return Recorder(store, Content(header.content), hasher, context.scheduler)


flight_recorder = FlightRecorder()
record = FileRecorder()
