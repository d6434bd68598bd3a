"""`hookline models`: looks after the models that were downloaded from a hub."""

import argparse
import json
import os
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

from hookline.plugins.kinds import MODEL
from hookline_hub.cache import Storage, cache_folder, is_whole, storages
from hookline_hub.errors import one_sentence, size_text
from hookline_hub.gguf_files import chosen, held, present, quants
from hookline_hub.names import HubName
from hookline_hub.pulling import locked, pull
from hookline_hub.remote import endpoint_url
from hookline_registry import installed
from hookline_server.cli.errors import CommandFailedError, UsageError
from hookline_server.cli.options.command_parser import CommandParser
from hookline_server.cli.output import say, table
from hookline_server.logs.options import LogFormat, LogLevel
from hookline_server.logs.set_up import set_up_log

_HEADINGS = ("name", "revisions", "size", "state")


def run(argv: list[str]) -> int:
    """Lists, downloads or removes."""
    given = _parser().parse_args(argv or ["list"])
    cache = cache_folder(given.download_dir)
    match given.action:
        case "pull":
            _pull(_name(given.model, given.revision), cache)
        case "rm":
            _remove(_name(given.model), cache)
        case _:
            _list(cache, as_json=given.json)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = CommandParser(
        prog="hookline models",
        description="Lists, downloads or removes models of a hub.",
    )
    actions = parser.add_subparsers(dest="action", metavar="ACTION")
    shown = actions.add_parser("list", help="list installed and downloaded models")
    shown.add_argument("--json", action="store_true", help="print JSON")
    pulled = actions.add_parser("pull", help="download a model, or what is new of it")
    pulled.add_argument("model", metavar="ORG/NAME[@REVISION][:QUANT]")
    pulled.add_argument("--revision", help="branch, tag or commit (default: main)")
    removed = actions.add_parser("rm", help="remove a model, or a quantization of it")
    removed.add_argument("model", metavar="ORG/NAME[:QUANT]")
    for each in (shown, pulled, removed):
        each.add_argument(
            "--download-dir",
            metavar="FOLDER",
            help="folder of downloaded models (default: HF_HUB_CACHE)",
        )
    return parser


def _name(text: str, revision: str | None = None) -> HubName:
    if (name := HubName.parse(text, revision)) is None:
        raise UsageError(
            f"{text!r} is no id of a hub: org/name, org/name@revision or org/name:quant"
        )
    return name


def _pull(name: HubName, cache: Path) -> None:
    log = set_up_log(LogLevel.INFO, LogFormat.CONSOLE)
    try:
        folder = pull(name, cache)
    finally:
        log.close()
    say(str(folder))


def _remove(name: HubName, cache: Path) -> None:
    """Takes a model away at once, then removes its files."""
    repo, storage = name.repo, Storage(cache, name.repo)
    if not storage.folder.is_dir():
        raise CommandFailedError(f"{cache} has no {repo}")
    with one_sentence(name, endpoint_url(), cache), locked(storage):
        size = storage.size()
        if name.quant is not None:
            storage.remove(_linked(storage, name))
            say(f"removed {name}, {size_text(size - storage.size())}")
            return
        gone = cache / f".removed-{storage.folder.name}-{os.getpid()}"
        storage.folder.replace(gone)
        shutil.rmtree(gone)
    say(f"removed {repo}, {size_text(size)}")


def _linked(storage: Storage, name: HubName) -> list[Path]:
    """Returns the files of a quantization, in all revisions.

    Raises:
        ModelLoadError: There is none of that name.
    """
    found = [
        snapshot / path
        for snapshot in storage.snapshots.iterdir()
        if held(name, snapshot)
        for path in chosen(name, present(snapshot))
    ]
    if not found:
        raise CommandFailedError(f"{storage.cache} has no {name}")
    return found


def _list(cache: Path, *, as_json: bool) -> None:
    found = [_Row.of(each) for each in storages(cache)]
    if as_json:
        say(json.dumps([asdict(each) for each in found], indent=2))
        return
    rows = [(each.name, "", "", "installed") for each in installed(MODEL.group)]
    rows += [each.cells() for each in found]
    say(table([_HEADINGS, *rows]))


@dataclass(frozen=True, slots=True)
class _Row:
    """What the list says of a downloaded model."""

    name: str
    folder: str
    revisions: dict[str, str]
    size: int
    state: str
    quants: list[str]

    @classmethod
    def of(cls, storage: Storage) -> Self:
        revisions = storage.revisions()
        folders = [storage.snapshot(each) for each in revisions.values()]
        held_quants = {
            quant: None
            for folder in folders
            for quant in quants(present(folder))
            if held(HubName(storage.repo, quant=quant), folder)
        }
        is_there = any(is_whole(each, weights=True) for each in folders)
        return cls(
            name=storage.repo,
            folder=str(storage.folder),
            revisions=revisions,
            size=storage.size(),
            state="whole" if is_there or held_quants else "incomplete",
            quants=list(held_quants),
        )

    def cells(self) -> tuple[str, str, str, str]:
        shown = ", ".join(f"{name} {it[:8]}" for name, it in self.revisions.items())
        state = ", ".join([self.state, *self.quants])
        return self.name, shown, size_text(self.size), state
