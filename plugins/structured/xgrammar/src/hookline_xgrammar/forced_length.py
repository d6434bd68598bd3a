"""Bounds how many bytes in a row a grammar may force.

xgrammar returns all forced bytes at once, and nothing interrupts it, even where they
never end, as with `root ::= "a" root`. So the bound is computed in advance from the
grammar's rules, and where it is too high, xgrammar is not asked for forced bytes.

A run of forced bytes stops where two different bytes may come next. The bound is never
too low: choices count as their longest alternative.
"""

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from enum import IntEnum
from typing import NamedTuple

MOST = 1024
"""Maximum forced bytes in a row; they take a third of a millisecond."""
_MOST_CHANGES = 64
"""Maximum changes of one rule; one that needs more grows with each recursion."""
_CHARACTER_BYTES = 4
_CLOSING_BYTES = 2
"""Bytes that close a level of nesting, such as a bracket."""
_AUTOMATA = ',"complete_fsm":'
"""What follows the rules in a serialized grammar."""


class _Kind(IntEnum):
    """The kinds of expressions in serialized grammars that are known here."""

    BYTES = 0
    CLASS = 1
    CLASS_STAR = 2
    EMPTY = 3
    RULE = 4
    SEQUENCE = 5
    CHOICES = 6
    TAG_DISPATCH = 7
    REPEAT = 8


class _Run(NamedTuple):
    """What may be forced from the start of an expression.

    Attributes:
        first: Bytes that may come first, two at most.
        is_empty: Whether it matches nothing, too.
        length: The longest run.
        passes: Whether a run may continue after it.
    """

    first: frozenset[int] = frozenset()
    is_empty: bool = False
    length: int = 0
    passes: bool = False


_NOTHING = _Run()
_EMPTY = _Run(is_empty=True, passes=True)


def is_bounded(serialized: str) -> bool:
    """Whether no run that a grammar forces is longer than `MOST` bytes.

    Args:
        serialized: The grammar, as xgrammar serializes it.
    """
    rules, _, _ = serialized.partition(_AUTOMATA)
    try:
        return _Rules(json.loads(f"{rules}}}")).is_bounded()
    except (KeyError, IndexError, TypeError, ValueError, _UnknownError):
        return False


class _UnknownError(Exception):
    """The grammar has an unknown expression, or grows without end."""


class _Work:
    """Rules that must be computed again, each once."""

    def __init__(self, count: int) -> None:
        self._queue = dict.fromkeys(reversed(range(count)))
        self._changes = [0] * count

    def __iter__(self) -> Iterator[int]:
        while self._queue:
            rule, _ = self._queue.popitem()
            yield rule

    def change(self, rule: int, users: Iterable[int]) -> None:
        """Notes that a rule has changed, and which rules must be computed again."""
        self._changes[rule] += 1
        if self._changes[rule] > _MOST_CHANGES:
            raise _UnknownError
        self._queue.update(dict.fromkeys(users))


class _Rules:
    """The rules of one grammar."""

    def __init__(self, grammar: dict[str, list[list[int]] | list[int]]) -> None:
        data, starts = grammar["grammar_expr_data"], grammar["grammar_expr_indptr"]
        self._data: Sequence[int] = data  # type: ignore[assignment]
        self._starts: Sequence[int] = starts  # type: ignore[assignment]
        self._expressions: dict[int, tuple[_Kind, Sequence[int]]] = {}
        self._constant: dict[int, _Run] = {}
        rules: list[list[int]] = grammar["rules"]  # type: ignore[assignment]
        self._bodies = [rule[1] for rule in rules]
        self._runs = [_NOTHING] * len(rules)
        self._users: dict[int, set[int]] = defaultdict(set)
        self._sequences: list[list[tuple[int, ...]]] = [[] for _ in rules]
        self._uses: list[list[tuple[int, _Run]]] = [[] for _ in rules]
        self._inner: list[list[_Run]] = [[] for _ in rules]
        for rule, body in enumerate(self._bodies):
            self._collect(rule, body)

    def is_bounded(self) -> bool:
        self._find_runs()
        for rule, sequences in enumerate(self._sequences):
            for sequence in sequences:
                self._note_uses(rule, sequence)
        tails = self._tails()
        return all(
            run.length + (tail if run.passes else 0) <= MOST
            for tail, starts in zip(tails, self._inner, strict=True)
            for run in starts
        )

    def _note_uses(self, rule: int, sequence: Sequence[int]) -> None:
        """Notes the runs that begin in a sequence, and those after rules in it."""
        behind = _EMPTY
        for part in reversed(sequence):
            if (used := self._used(part)) is not None:
                self._uses[rule].append((used, behind))
            behind = _joined(self._run(part), behind)
            self._inner[rule].append(behind)

    def _find_runs(self) -> None:
        work = _Work(len(self._bodies))
        for rule in work:
            run = self._run(self._bodies[rule])
            if run.length > MOST:
                raise _UnknownError
            if run != self._runs[rule]:
                self._runs[rule] = run
                work.change(rule, self._users[rule])

    def _tails(self) -> list[int]:
        """Returns the longest run after each rule, wherever it is used.

        Short ones do not add up: there are as many as the output has opened levels.
        """
        tails = [0] * len(self._bodies)
        work = _Work(len(self._bodies))
        for rule in work:
            for used, run in self._uses[rule]:
                is_long = run.passes and run.length > _CLOSING_BYTES
                length = run.length + (tails[rule] if is_long else 0)
                if length > MOST:
                    raise _UnknownError
                if length > tails[used]:
                    tails[used] = length
                    work.change(used, (used,))
        return tails

    # -- expressions -------------------------------------------------------------

    def _expression(self, index: int) -> tuple[_Kind, Sequence[int]]:
        if (known := self._expressions.get(index)) is None:
            start = self._starts[index]
            data = self._data[start + 2 : start + 2 + self._data[start + 1]]
            known = self._expressions[index] = _Kind(self._data[start]), data
        return known

    def _used(self, index: int) -> int | None:
        """Returns the rule that an expression refers to."""
        kind, data = self._expression(index)
        return data[0] if kind in {_Kind.RULE, _Kind.REPEAT} else None

    def _collect(self, rule: int, index: int) -> None:
        """Notes the sequences of a rule, and which rules it uses."""
        kind, data = self._expression(index)
        if kind is _Kind.CHOICES:
            for each in data:
                self._collect(rule, each)
            return
        parts = tuple(data) if kind is _Kind.SEQUENCE else (index,)
        self._sequences[rule].append(parts)
        for part in parts:
            if (used := self._used(part)) is not None:
                self._users[used].add(rule)

    def _run(self, index: int) -> _Run:
        if (known := self._constant.get(index)) is not None:
            return known
        kind, data = self._expression(index)
        match kind:
            case _Kind.RULE:
                return self._runs[data[0]]
            case _Kind.SEQUENCE:
                return self._sequence(data)
            case _Kind.CHOICES:
                return _either([self._run(each) for each in data])
            case _Kind.REPEAT:
                return self._repeated(data)
            case _:
                self._constant[index] = run = _constant_run(kind, data)
                return run

    def _sequence(self, parts: Sequence[int]) -> _Run:
        run = _EMPTY
        for part in reversed(parts):
            run = _joined(self._run(part), run)
        return run

    def _repeated(self, data: Sequence[int]) -> _Run:
        rule, least, most = data[:3]
        run = self._runs[rule]
        is_empty = least == 0 or run.is_empty
        if not run.passes:
            return _Run(run.first, is_empty, run.length)
        times = most if 0 <= most <= MOST else MOST + 1
        return _Run(run.first, is_empty, run.length * times, passes=True)


def _constant_run(kind: _Kind, data: Sequence[int]) -> _Run:
    """Returns the run of an expression that refers to no others."""
    match kind:
        case _Kind.BYTES:
            return _Run(frozenset(data[:1]), not data, len(data), passes=True)
        case _Kind.CLASS | _Kind.CLASS_STAR:
            return _class_run(data, is_star=kind is _Kind.CLASS_STAR)
        case _Kind.TAG_DISPATCH:  # free text, unless a tag begins
            return _Run(frozenset((0, 1)), is_empty=True)
        case _:
            return _EMPTY


def _class_run(data: Sequence[int], *, is_star: bool) -> _Run:
    negated, *ranges = data
    pairs = list(zip(ranges[::2], ranges[1::2], strict=True))
    if negated or len(pairs) != 1 or pairs[0][0] != pairs[0][1]:
        # Two characters differ in one of their bytes.
        ends = frozenset(_lead(end) for pair in pairs for end in pair)
        first = frozenset((0, 1)) if negated else frozenset(sorted(ends)[:2])
        return _Run(first, is_star, _CHARACTER_BYTES)
    length = MOST + 1 if is_star else _CHARACTER_BYTES
    return _Run(frozenset((_lead(pairs[0][0]),)), is_star, length, passes=True)


def _lead(character: int) -> int:
    """Returns the first byte of a character."""
    return chr(character).encode("utf-8", "surrogatepass")[0]


def _either(runs: Sequence[_Run]) -> _Run:
    if len(runs) == 1:
        return runs[0]
    first = frozenset(sorted(frozenset[int]().union(*(run.first for run in runs)))[:2])
    is_empty = any(run.is_empty for run in runs)
    if len(first) > 1:
        return _Run(first, is_empty)
    longest = max((run.length for run in runs), default=0)
    return _Run(first, is_empty, longest, any(run.passes for run in runs))


def _joined(run: _Run, behind: _Run) -> _Run:
    """Returns the run of an expression and what follows it."""
    if behind is _EMPTY:
        return run
    first = run.first
    if run.is_empty and len(first) < 2:
        first = frozenset(sorted(first | behind.first)[:2])
    is_empty = run.is_empty and behind.is_empty
    if len(first) > 1:
        return _Run(first, is_empty, run.length if len(run.first) > 1 else 0)
    if not run.passes:
        return _Run(first, is_empty, run.length)
    return _Run(first, is_empty, run.length + behind.length, behind.passes)
