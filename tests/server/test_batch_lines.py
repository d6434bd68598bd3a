"""Lines of a batch: what is read, and what is an error."""

import json
from pathlib import Path

import pytest

from hookline_server.batch.input_file import InputFile, Line
from hookline_server.batch.lines import (
    BatchError,
    BatchResponse,
    BatchResult,
    LineError,
    read_request,
    result_line,
)
from hookline_server.batch.output_file import OutputFile, digest
from hookline_server.cli.errors import UsageError

URLS = frozenset({"/v1/completions"})


def line(**fields: object) -> bytes:
    given = {"custom_id": "a", "method": "POST", "url": "/v1/completions", "body": {}}
    return json.dumps({**given, **fields}).encode()


def response(name: str, status: int) -> bytes:
    made = BatchResponse(status_code=status, request_id="r", body=b"{}")  # type: ignore[arg-type]
    return result_line(BatchResult(id="b", custom_id=name, response=made))


def test_a_line_is_a_request() -> None:
    """Its body stays the bytes that it is."""
    request = read_request(line(body={"prompt": "x"}), 1, URLS)

    assert (request.custom_id, request.url) == ("a", "/v1/completions")
    assert json.loads(bytes(request.body)) == {"prompt": "x"}


@pytest.mark.parametrize(
    ("data", "code", "custom_id"),
    [
        (b"{", "invalid_line", None),
        (b"[]", "invalid_line", None),
        (b"\xff", "invalid_line", None),
        (b"[" * 100_000, "invalid_line", None),
        (line(custom_id=""), "invalid_line", None),
        (line(custom_id=5), "invalid_line", None),
        (line(method="GET"), "invalid_line", "a"),
        (line(url=None), "invalid_line", "a"),
        (line(url="/v1/nothing"), "invalid_url", "a"),
        (line(url="http://elsewhere/v1/completions"), "invalid_url", "a"),
    ],
)
def test_a_wrong_line_is_named(data: bytes, code: str, custom_id: str | None) -> None:
    """The error has the line's number, and its id if that can be read."""
    with pytest.raises(LineError) as caught:
        read_request(data, 7, URLS)

    assert caught.value.error.code == code
    assert caught.value.error.message.startswith("line 7: ")
    assert caught.value.custom_id == custom_id


def test_blank_lines_do_not_count_and_long_ones_are_left_out(tmp_path: Path) -> None:
    """Numbers are those of the file; a last line needs no end."""
    path = tmp_path / "in.jsonl"
    path.write_bytes(b"a\n\n  \r\n" + b"x" * 3_000_000 + b"\nb\n" + b"y" * 16 + b"\nc")
    source = InputFile(path, longest=16)

    lines = source.next_slice()

    assert lines == [
        Line(1, b"a"),
        Line(4, None),
        Line(5, b"b"),
        Line(6, b"y" * 16),
        Line(7, b"c"),
    ]
    assert source.next_slice() == []
    source.close()


def test_a_byte_order_mark_is_no_part_of_the_first_line(tmp_path: Path) -> None:
    """Files of Windows programs are read like others."""
    path = tmp_path / "in.jsonl"
    path.write_text("a\nb", "utf-8-sig")
    source = InputFile(path, longest=16)

    lines = source.next_slice()

    assert lines == [Line(1, b"a"), Line(2, b"b")]
    source.close()


def test_a_folder_is_no_output(tmp_path: Path) -> None:
    """It is refused before any request runs, and nothing is left beside it."""
    folder = tmp_path / "out"
    folder.mkdir()

    with pytest.raises(UsageError, match="it is a folder"):
        OutputFile(folder, resume=False)

    assert list(tmp_path.iterdir()) == [folder]


@pytest.mark.parametrize("name", ["out.jsonl", "out.jsonl.part", "out.jsonl.part.kept"])
def test_no_answer_is_written_through_a_link(tmp_path: Path, name: str) -> None:
    """Nor does the output take the place of one."""
    target = tmp_path / "target"
    if not name.endswith("part"):  # whose existence is refused anyway
        target.write_text("mine")
    (tmp_path / name).symlink_to(target)
    if name.endswith("kept"):
        (tmp_path / "out.jsonl.part").write_bytes(response("a", 200))

    with pytest.raises(UsageError, match="link"):
        OutputFile(tmp_path / "out.jsonl", resume=name.endswith("kept"))

    assert not target.exists() or target.read_text() == "mine"


def test_the_output_appears_when_it_is_whole(tmp_path: Path) -> None:
    """Until then an older file of its name stays."""
    path = tmp_path / "out.jsonl"
    path.write_text("older")
    output = OutputFile(path, resume=False)
    output.write(response("a", 200))

    before = path.read_text()
    output.commit()
    output.close()

    assert before == "older"
    assert path.read_bytes() == response("a", 200)
    assert path.stat().st_mode & 0o777 == 0o600
    assert not output.part.exists()


def test_a_run_that_did_nothing_leaves_nothing(tmp_path: Path) -> None:
    """An empty part is removed."""
    output = OutputFile(tmp_path / "out.jsonl", resume=False)

    output.close()

    assert list(tmp_path.iterdir()) == []


def test_an_interrupted_run_is_resumed_only_on_request(tmp_path: Path) -> None:
    """Responses stay; errors, the server's failures and half a line are left out."""
    path = tmp_path / "out.jsonl"
    lost = BatchResult(id="b", custom_id="lost", error=BatchError(code="c", message=""))
    first = OutputFile(path, resume=False)
    for each in (response("a", 200), result_line(lost), response("broken", 500)):
        first.write(each)
    first.write(response("refused", 429))
    first.write(response("b", 400))
    first.write(b'{"id": "b", "custom')
    first.close()

    with pytest.raises(UsageError, match="--resume"):
        OutputFile(path, resume=False)
    second = OutputFile(path, resume=True)
    second.close()

    assert second.done == {digest("a"), digest("b")}
    assert second.part.read_bytes() == response("a", 200) + response("b", 400)
