"""Test helpers for engines and plugins."""

from hookline_testing.byte_tokenizer import save_byte_tokenizer
from hookline_testing.conservation import assert_conserved
from hookline_testing.plugin_site import PluginSite
from hookline_testing.recording_logger import RecordingLogger

__all__ = ["PluginSite", "RecordingLogger", "assert_conserved", "save_byte_tokenizer"]
