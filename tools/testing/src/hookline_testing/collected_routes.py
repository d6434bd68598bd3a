"""The pages that a logger adds, without a server."""

from pathlib import Path

from hookline.pages import EventHandler, PageHandler, Routes


class CollectedRoutes(Routes):
    """What was registered, by path.

    Attributes:
        pages: Handlers of GET.
        posts: Handlers of POST.
        streams: Handlers of events.
        folders: Folders of files.
    """

    def __init__(self) -> None:
        self.pages: dict[str, PageHandler] = {}
        self.posts: dict[str, PageHandler] = {}
        self.streams: dict[str, EventHandler] = {}
        self.folders: dict[str, Path] = {}

    def get(self, path: str, handler: PageHandler) -> None:
        self.pages[path] = handler

    def post(self, path: str, handler: PageHandler) -> None:
        self.posts[path] = handler

    def events(self, path: str, handler: EventHandler) -> None:
        self.streams[path] = handler

    def files(self, path: str, folder: Path, *, is_public: bool = False) -> None:
        del is_public
        self.folders[path] = folder
