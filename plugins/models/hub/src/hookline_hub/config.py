"""Options of models that a hub has; importing them is cheap."""

from dataclasses import dataclass
from typing import ClassVar

from hookline.config.options import check_options, option
from hookline.config.sections import ConfigSection


@dataclass(frozen=True, slots=True, kw_only=True)
class HubConfig(ConfigSection):
    """Where models of a hub come from."""

    key: ClassVar[str] = "hub"
    group: ClassVar[str] = "model hub"
    is_of_machine: ClassVar[bool] = True

    revision: str | None = option(
        "Branch, tag or commit of a model of a hub.",
        default=None,
        metavar="REVISION",
        shown_default="main",
    )
    tokenizer_revision: str | None = option(
        "Branch, tag or commit of a tokenizer of a hub: of --tokenizer, or the "
        "model's.",
        default=None,
        metavar="REVISION",
        shown_default="main for --tokenizer, else --revision",
    )
    download_dir: str | None = option(
        "Folder of downloaded models, laid out as the Hugging Face cache.",
        default=None,
        metavar="FOLDER",
        shown_default="HF_HUB_CACHE",
    )
    offline: bool = option(
        "Ask no hub.",
        default=False,
        shown_default="HF_HUB_OFFLINE",
    )

    def __post_init__(self) -> None:
        check_options(self)
