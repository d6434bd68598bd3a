"""Compiled grammars that xgrammar's backend keeps ready."""

import json

import numpy as np
import pytest

from hookline.structured_outputs import GrammarKind
from hookline_grammars.backend import BackendContext
from hookline_grammars.spec import GrammarSpec
from hookline_xgrammar import XGrammarBackend, backend

END = 256
TOKENS = [bytes([code]) for code in range(END)]


def test_grammars_are_kept_within_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """The latest ones are kept, and those that are not are made again."""
    context = BackendContext(
        tokens=[*TOKENS, b""], vocab_size=END + 1, eos_token_ids=(END,), options={}
    )
    compiling, made = XGrammarBackend(context), XGrammarBackend(context)
    compiled = [
        compiling.compile(GrammarSpec(GrammarKind.JSON, json.dumps({"const": name})))
        for name in "abcd"
    ]
    for data in compiled[:2]:
        made.matcher(data, (END,))
    most = made._kept_bytes + 1
    monkeypatch.setattr(backend, "_KEPT_BYTES", most)

    mask = np.empty(-(-(END + 1) // 32), np.int32)
    for data in (*compiled, *compiled):
        matcher = made.matcher(data, (END,))
        matcher.fill(mask)

        assert mask[ord('"') // 32] >> (ord('"') % 32) & 1
        assert made._kept_bytes <= most

    assert list(made._kept) == compiled[-len(made._kept) :]
    assert len(made._kept) < len(compiled)
