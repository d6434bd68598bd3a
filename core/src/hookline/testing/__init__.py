"""Helpers for tests of engines and plugins; ships with Hookline."""

from hookline.testing.byte_tokenizer import save_byte_tokenizer
from hookline.testing.conservation import assert_conserved

__all__ = ["assert_conserved", "save_byte_tokenizer"]
