"""The Hugging Face cache: where it is, and which models in it are whole."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from hookline_hub.gguf_files import held
from hookline_hub.names import HubName, is_commit
from hookline_hub.needed import TOKENIZERS
from hookline_models.checkpoints.weight_names import find_weights
from hookline_processes.model_files import read_model_file

CONFIG = "config.json"
_PREFIX = "models--"
_MOST_REF_BYTES = 200


def cache_folder(download_dir: str | None) -> Path:
    """Returns the folder of downloaded models.

    Args:
        download_dir: The option of that name.
    """
    if download_dir is not None:
        return Path(download_dir).expanduser().absolute()
    from huggingface_hub.constants import HF_HUB_CACHE  # noqa: PLC0415 - it is slow

    return Path(HF_HUB_CACHE).absolute()


@dataclass(frozen=True, slots=True)
class Storage:
    """What a cache has of one model.

    Attributes:
        cache: The cache's folder.
        repo: The model's id.
    """

    cache: Path
    repo: str

    @property
    def folder(self) -> Path:
        """The model's folder in the cache."""
        return self.cache / (_PREFIX + self.repo.replace("/", "--"))

    @property
    def blobs(self) -> Path:
        """The folder of files by their checksums."""
        return self.folder / "blobs"

    @property
    def lock(self) -> Path:
        """The file that whoever changes the folder locks."""
        return self.cache / ".locks" / self.folder.name / "hookline.lock"

    @property
    def snapshots(self) -> Path:
        """The folder of the folders of commits."""
        return self.folder / "snapshots"

    def snapshot(self, commit: str) -> Path:
        """Returns the folder of a commit's files, which need not exist."""
        return self.snapshots / commit

    def commit(self, revision: str) -> str | None:
        """Returns the commit that a revision was when it was downloaded last."""
        if is_commit(revision):
            return revision
        try:
            text = read_model_file(self.folder / "refs" / revision, _MOST_REF_BYTES)
        except (OSError, ValueError):
            return None
        commit = text.decode("ascii", "replace").strip()
        return commit if is_commit(commit) else None

    def whole(self, name: HubName, *, weights: bool) -> Path | None:
        """Returns the folder of a revision if all that is needed is in it.

        Of a model that is a GGUF file, it is the path of that.
        """
        if (commit := self.commit(name.revision)) is None:
            return None
        snapshot = self.snapshot(commit)
        if name.quant is None and is_whole(snapshot, weights=weights):
            return snapshot
        return held(name, snapshot)

    def revisions(self) -> dict[str, str]:
        """Returns the commits of branches and tags that were downloaded."""
        refs = self.folder / "refs"
        names = [str(each.relative_to(refs)) for each in sorted(refs.rglob("*"))]
        found = {name: self.commit(name) for name in names}
        return {name: commit for name, commit in found.items() if commit is not None}

    def remove(self, links: Iterable[Path]) -> None:
        """Removes files of snapshots, with their contents where no other file has them.

        Args:
            links: Paths in snapshots.
        """
        blobs = set[Path]()
        for each in links:
            blobs.add(each.resolve())
            each.unlink()
        kept = {each.resolve() for each in self.snapshots.rglob("*")}
        for blob in blobs - kept:
            if blob.parent == self.blobs.resolve():
                blob.unlink()

    def size(self) -> int:
        """Returns the bytes of all its files, half-downloaded ones included."""
        total = 0
        for each in self.folder.rglob("*"):
            if each.is_file() and not each.is_symlink():
                total += each.stat().st_size
        return total


def storages(cache: Path) -> Iterator[Storage]:
    """Yields the models that a cache has something of."""
    for each in sorted(cache.glob(f"{_PREFIX}*--*")):
        repo = each.name.removeprefix(_PREFIX).replace("--", "/", 1)
        storage = Storage(cache, repo)
        if HubName.parse(repo) is not None and storage.size():
            yield storage


def storage_at(folder: Path) -> Storage | None:
    """Returns the model whose folder in a cache this is; None if it is none."""
    found = (each for each in storages(folder.parent) if each.folder == folder)
    return next(found, None) if folder.name.startswith(_PREFIX) else None


def is_whole(snapshot: Path, *, weights: bool) -> bool:
    """Whether a folder has a configuration, a tokenizer and all weights.

    Other programs may have put some of its files there.
    """
    if not (snapshot / CONFIG).is_file():
        return False
    if TOKENIZERS.isdisjoint(each.name for each in snapshot.iterdir()):
        return False
    if not weights:
        return True
    try:
        find_weights(snapshot)
    except (OSError, ValueError):
        return False
    return True
