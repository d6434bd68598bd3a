"""Grammar backends: masks of the right shape, and texts taken back."""

from collections.abc import Mapping
from typing import cast

import numpy as np

from hookline.structured_outputs import GrammarKind
from hookline_grammars.backend import (
    BackendContext,
    GrammarBackend,
    GrammarMatcher,
    RefusedGrammarError,
)
from hookline_grammars.spec import GrammarSpec
from hookline_registry import Failure, isolate
from hookline_testing.conformance.subject import Subject

_TOKENS = [b"", b"a", b"b", b"ab", b"c", *(bytes([each]) for each in range(33, 68))]
_STOP = 0
_WORDS = -(-len(_TOKENS) // 32)
_CHOICES = '["abc", "b"]'


def check(subject: Subject) -> None:
    """Compiles choices, and follows one of them token by token."""
    subject.refuses_unknown(_context)
    made = subject.create(context=_context(subject.options))
    if made is None or not subject.has(made, GrammarBackend):
        return
    backend = cast("GrammarBackend", made)
    broken = isolate(backend.compile, GrammarSpec(GrammarKind.REGEX, "(("))
    code = getattr(type(made), "compile", None)
    if not isinstance(broken, Failure):
        subject.fault("compile takes a broken expression", code)
    elif not isinstance(broken.error, RefusedGrammarError):
        subject.fault(
            f"compile refuses a grammar by {broken.summary}: raise "
            "RefusedGrammarError, whose text is for the client",
            code,
        )
    data = subject.call(
        "compile", backend.compile, GrammarSpec(GrammarKind.CHOICE, _CHOICES)
    )
    if isinstance(data, Failure):
        return
    if not subject.typed(data, bytes, "what compile returns", code):
        return
    matcher = subject.call("matcher", backend.matcher, data, [_STOP])
    if not isinstance(matcher, Failure) and subject.has(matcher, GrammarMatcher):
        _follow(subject, matcher)


def _context(options: Mapping[str, object]) -> BackendContext:
    return BackendContext(
        tokens=_TOKENS, vocab_size=len(_TOKENS), eos_token_ids=(_STOP,), options=options
    )


def _follow(subject: Subject, matcher: GrammarMatcher) -> None:
    kind = type(matcher)
    first = _allowed(subject, matcher)
    if first is None:
        return
    if not {1, 2} <= first or 4 in first or _STOP in first:
        subject.fault(f"fill allows tokens {sorted(first)} at the start", kind)
        return
    wrong = subject.call("accept", matcher.accept, 4)
    if wrong is not False:
        subject.fault("accept takes a token that fill does not allow", kind)
    subject.call("accept", matcher.accept, 3)
    subject.call("rollback", matcher.rollback, 1)
    if _allowed(subject, matcher) != first:
        subject.fault("rollback does not return to where it was", kind)
    for token_id in (3, 4, _STOP):
        if subject.call("accept", matcher.accept, token_id) is not True:
            subject.fault(f"accept refuses token {token_id}, which must follow", kind)
    if matcher.is_terminated is not True:
        subject.fault("is_terminated is not True behind a stop token", kind)


def _allowed(subject: Subject, matcher: GrammarMatcher) -> set[int] | None:
    mask = np.zeros(_WORDS, np.int32)
    if isinstance(subject.call("fill", matcher.fill, mask), Failure):
        return None
    bits = np.unpackbits(mask.view(np.uint8), bitorder="little")
    return set(np.flatnonzero(bits).tolist())
