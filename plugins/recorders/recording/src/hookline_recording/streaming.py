"""Reads recordings record by record: of long ones, only places are held."""

from array import array
from collections.abc import Collection, Iterator
from contextlib import ExitStack, suppress
from io import BytesIO
from itertools import count, pairwise
from pathlib import Path
from typing import BinaryIO, Self

from hookline_recording.frames import frames
from hookline_recording.front_end_schema import FRONT_END_NUMBERS, Answered, Served
from hookline_recording.reading import RING, front_ends_of, read_header
from hookline_recording.schema import Record, decoded


def parts_of(path: Path) -> list[Path]:
    """Returns a file and those that continue it, in order."""
    found = [path]
    for number in count(2):
        part = path.with_name(f"{path.name}.part{number}")
        if not part.exists():
            return found
        found.append(part)
    raise AssertionError


class _File:
    """Where the records of one file are: number, position and length of each."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._numbers, self._positions = array("Q"), array("Q")
        self._lengths = array("L")
        for number, position, body in frames(file):
            self._numbers.append(number)
            self._positions.append(position)
            self._lengths.append(len(body))

    def __len__(self) -> int:
        return len(self._numbers)

    def order(self, *, of_engine: bool) -> Iterator[int]:
        """Yields the places of records in the order of their numbers."""
        numbers = self._numbers
        places = (
            at
            for at, number in enumerate(numbers)
            if (number < FRONT_END_NUMBERS) is of_engine
        )
        if all(first < second for first, second in pairwise(numbers)):
            yield from places
        else:
            yield from array("L", sorted(places, key=numbers.__getitem__))

    def number(self, place: int) -> int:
        return self._numbers[place]

    def record(self, place: int) -> Record | None:
        """Reads a record; None if it is not of this version."""
        self._file.seek(self._positions[place])
        return decoded(self._file.read(self._lengths[place]))


class RecordStream:
    """The records of a recording and of the files that continue it.

    Attributes:
        header: What it is of.
    """

    def __init__(self, path: Path) -> None:
        """Looks where the records are.

        Raises:
            RecordingError: It is no recording, or of a newer version.
            OSError: It cannot be read.
        """
        self.header = read_header(path)
        with ExitStack() as opened:
            self._files = list(_files(path, opened))
            self._opened = opened.pop_all()
        self._served: dict[int, tuple[int, int]] = {}
        self._answered: dict[str, tuple[int, int]] = {}
        for index, file in enumerate(self._files):
            for place in file.order(of_engine=False):
                record = file.record(place)
                if isinstance(record, Served):
                    self._served[record.request_id] = index, place
                elif isinstance(record, Answered):
                    self._answered[record.client_id] = index, place

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._opened.close()

    @property
    def answered_ids(self) -> Collection[str]:
        """Clients' ids of responses."""
        return self._answered

    def records(self) -> Iterator[Record]:
        """Yields the engine's records in order."""
        last = 0
        for file in self._files:
            for place in file.order(of_engine=True):
                number = file.number(place)
                if number <= last:  # in both files, or twice in a ring
                    continue
                last = number
                if (record := file.record(place)) is not None:
                    yield record

    def served(self, request_id: int) -> Served | None:
        """Returns how the front end saw a request; None if that is not known."""
        found = self._at(self._served.get(request_id))
        return found if isinstance(found, Served) else None

    def answered(self, client_id: str) -> Answered | None:
        """Returns the last response to a client's id; None if there is none."""
        found = self._at(self._answered.get(client_id))
        return found if isinstance(found, Answered) else None

    def _at(self, place: tuple[int, int] | None) -> Record | None:
        return None if place is None else self._files[place[0]].record(place[1])


def _files(path: Path, opened: ExitStack) -> Iterator[_File]:
    """Yields the files of a recording; a ring may be written meanwhile, and is read."""
    if path.suffix == RING:
        yield _File(BytesIO(path.read_bytes()))
        for front_end in front_ends_of(path):
            with suppress(OSError):
                yield _File(BytesIO(front_end.read_bytes()))
        return
    for part in parts_of(path):
        read_header(part)
        yield _File(opened.enter_context(part.open("rb")))
