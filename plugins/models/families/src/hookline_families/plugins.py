"""The plugins of the families, which are listed without the import of torch."""

from importlib import import_module

from hookline.hookspecs import hookimpl


class FamilyPlugin:
    """Imports a family when a model needs it."""

    def __init__(self, module: str, name: str) -> None:
        self._module, self._name = module, name

    @hookimpl
    def model_family(self) -> object:
        module = import_module(f"hookline_families.{self._module}")
        return getattr(module, self._name)


BLOOM = FamilyPlugin("replacing", "BLOOM")
FALCON = FamilyPlugin("replacing", "FALCON")
LATENT = FamilyPlugin("latent", "LATENT")
MPT = FamilyPlugin("replacing", "MPT")
