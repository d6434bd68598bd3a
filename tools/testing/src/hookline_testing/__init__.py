"""Test helpers for engines and plugins."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # the command that writes packages needs none of them
    from hookline_testing.byte_tokenizer import save_byte_tokenizer
    from hookline_testing.conservation import assert_conserved
    from hookline_testing.plugin_site import PluginSite
    from hookline_testing.recording_logger import RecordingLogger

__all__ = ["PluginSite", "RecordingLogger", "assert_conserved", "save_byte_tokenizer"]

_MODULES = {
    "PluginSite": "plugin_site",
    "RecordingLogger": "recording_logger",
    "assert_conserved": "conservation",
    "save_byte_tokenizer": "byte_tokenizer",
}


def __getattr__(name: str) -> object:
    if (module := _MODULES.get(name)) is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{module}"), name)
