"""Models in GGUF files, which have weights, configuration and tokenizer in one.

Before a start, a file's description is written into a folder as `transformers` wants it
(`source.py`); a loader then reads the tensors of the file (`loader.py`), and weights in
8 or 4 bits become the layers of hookline-quantized (`method.py`).

Importing it is cheap: torch is imported when a loader or a method is made.
"""

from hookline.hookspecs import hookimpl
from hookline_models.model_loader import LoaderContext, ModelLoader
from hookline_models.quantization import QuantizationContext, QuantizationMethod

__all__ = ["create_model_loader", "create_quantization_method"]


@hookimpl
def create_model_loader(context: LoaderContext) -> ModelLoader | None:
    """Raises `ModelLoadError` if the files have changed since they were described."""
    from hookline_gguf.view import NOTE, noted_files  # noqa: PLC0415

    if not (context.folder / NOTE).is_file():
        return None
    from hookline_gguf.loader import GgufLoader  # noqa: PLC0415

    name = context.config.model
    return GgufLoader(name, noted_files(name, context.folder))


@hookimpl
def create_quantization_method(context: QuantizationContext) -> QuantizationMethod:
    """Returns the method of weights that a GGUF file has in 8 or 4 bits."""
    from hookline_gguf.method import GgufMethod  # noqa: PLC0415

    return GgufMethod(context.config)
