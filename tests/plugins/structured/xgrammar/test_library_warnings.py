"""What xgrammar only warns about is refused."""

import os
from contextlib import suppress
from typing import Any

import pytest

from hookline import StructuredOutputsParams
from hookline_grammars.backend import BackendContext, RefusedGrammarError
from hookline_grammars.loading import make_backend
from hookline_grammars.spec import spec_of
from hookline_xgrammar.library_warnings import warnings_into

CONTEXT = BackendContext(
    tokens=[bytes([each]) for each in range(256)],
    vocab_size=256,
    eos_token_ids=(0,),
    options={},
)


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"json": {"type": "integer", "multipleOf": 4096}}, "ignoring multipleOf"),
        ({"regex": r"a\Gb"}, "not recognized"),
        ({"regex": "a$b"}, "It is ignored"),
    ],
)
def test_what_it_leaves_out_is_refused(fields: dict[str, Any], reason: str) -> None:
    """
    By its own words, which it writes to standard error only.
    """
    backend = make_backend("xgrammar", CONTEXT)

    with pytest.raises(RefusedGrammarError, match=reason):
        backend.compile(spec_of(StructuredOutputsParams(**fields)))


def test_standard_error_is_what_it_was() -> None:
    """
    Also after an exception; other texts are no warnings.
    """
    before, found = os.fstat(2), list[str]()

    with suppress(ZeroDivisionError), warnings_into(found):
        os.write(2, b"[1:2] /a.cc:3: Warning: x is ignored\nnothing\n")
        raise ZeroDivisionError

    assert found == ["x is ignored"]
    after = os.fstat(2)
    assert (after.st_dev, after.st_ino) == (before.st_dev, before.st_ino)
