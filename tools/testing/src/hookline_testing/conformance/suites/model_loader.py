"""Model loaders: they leave other formats alone, and read tensors in parts.

The option `folder` names a folder in the loader's format, to be read.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import cast

from hookline.config import ModelConfig
from hookline_demo_model import folder as demo_folder
from hookline_models.checkpoints.cut import Stored
from hookline_models.model_loader import LoaderContext, ModelLoader
from hookline_registry import Failure
from hookline_testing.conformance.subject import Subject


def check(subject: Subject) -> None:
    """Asks for a checkpoint of safetensors, then for one in the loader's format."""
    make = subject.registry.maker(subject.registered, subject.kind.hook)
    if make is None:
        subject.fault(f"it has no hook {subject.kind.hook}")
        return
    made = subject.call(subject.kind.hook, make, context=_context(demo_folder()))
    if made is not None and not isinstance(made, Failure):
        kind = type(made).__name__
        subject.fault(
            f"it gives {kind} for a folder of safetensors: None leaves it alone",
            subject.factory,
        )
    if (given := subject.options.get("folder")) is None:
        return
    loader = subject.create(context=_context(Path(str(given))))
    if loader is not None and subject.has(loader, ModelLoader):
        subject.call("reading", _read, subject, cast("ModelLoader", loader))


def _context(folder: Path) -> LoaderContext:
    return LoaderContext(config=ModelConfig(model=str(folder)), folder=folder)


def _read(subject: Subject, loader: ModelLoader) -> None:
    kind = type(loader)
    with loader:
        tensors: Mapping[str, Stored] = loader.tensors()
        if not tensors or not loader.files:
            subject.fault("it finds no tensors, or names no files", kind)
        whole = {name: each[...] for name, each in tensors.items()}
        for name, each in tensors.items():
            if each.get_shape() != list(whole[name].shape):
                subject.fault(f"{name} has another shape than what is read", kind)
            elif not each[slice(0, 1),].equal(whole[name][:1]):
                subject.fault(f"a part of {name} is not that of the whole", kind)
    if not all(each.isfinite().all() for each in whole.values()):
        subject.fault("what was read does not outlast the loader", kind)
