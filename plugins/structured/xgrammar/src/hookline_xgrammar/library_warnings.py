"""Captures the warnings of xgrammar, which it writes only to standard error."""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager

_STANDARD_ERROR = 2
_WARNING = re.compile(rb": Warning: (.*)")


@contextmanager
def warnings_into(found: list[str]) -> Iterator[None]:
    """Adds the warnings that its body causes to a list.

    It redirects standard error of the whole process: use it only where nothing else
    writes there, as in the compiling process.
    """
    file, former = os.memfd_create("xgrammar"), os.dup(_STANDARD_ERROR)
    os.dup2(file, _STANDARD_ERROR)
    try:
        yield
    finally:
        os.dup2(former, _STANDARD_ERROR)
        text = os.pread(file, os.fstat(file).st_size, 0)
        os.close(former)
        os.close(file)
        found += [each.decode("utf-8", "replace") for each in _WARNING.findall(text)]
