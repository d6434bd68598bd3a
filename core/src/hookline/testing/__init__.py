"""Helpers for tests of engines and plugins; ships with Hookline."""

from hookline.testing.byte_tokenizer import save_byte_tokenizer
from hookline.testing.conservation import assert_conserved
from hookline.testing.plugin_site import PluginSite
from hookline.testing.recording_logger import RecordingLogger

__all__ = ["PluginSite", "RecordingLogger", "assert_conserved", "save_byte_tokenizer"]
