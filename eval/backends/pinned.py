"""That what is loaded is what the spec names: a folder's fingerprint, or a hub's commit."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from jfinteb.eval.backends.folder import Watched
from jfinteb.eval.backends.model_files import ModelFiles
from jfinteb.eval.backends.own_code import code_elsewhere
from jfinteb.eval.backends.snapshot import check_snapshot
from jfinteb.eval.cache import cache_folder
from jfinteb.eval.encoder import ModelError

__all__ = ["Pinned"]


class Pinned:
    """The files of a model from before it is opened until its weights are loaded.

    Args:
        files: of the model.
        remote_code: whether code may be taken from elsewhere.

    Attributes:
        kept: folder where files of the hub's cache that were found sound are remembered.
    """

    def __init__(self, files: ModelFiles, *, remote_code: bool) -> None:
        self._files = files
        self._remote_code = remote_code
        self._watched = Watched(files.folder, files.name)
        self._code: dict[str, str] = {}
        self._places: tuple[Sequence[str], Sequence[str]] = ("",), ()
        self.kept: Path | None = cache_folder()

    def code(self, folders: Sequence[str] = ("",), classes: Sequence[str] = ()) -> dict[str, str]:
        """See `code_elsewhere`, to be asked once configuration and tokenizer have been read."""
        self._places = folders, classes
        self._code = self._code_now()
        return self._code

    def check(self) -> None:
        """Raise ModelError if a folder is not what it was when this was made."""
        self._watched.check()

    def check_loaded(self, snapshot: Path | None) -> None:
        """The same once the weights are there; a hub's files are compared with what names them.

        Args:
            snapshot: in the hub's cache; None for a folder.

        Raises:
            ModelError: the files are not those that the spec names.
        """
        self.check()
        if snapshot is not None:
            check_snapshot(snapshot, self._files.name, self.kept)
        if self._code_now() != self._code:
            raise ModelError(
                f"{self._files.name}: code that it takes from elsewhere was changed while the "
                "model was being opened; run again"
            )

    def _code_now(self) -> dict[str, str]:
        if not self._remote_code:
            return {}
        return code_elsewhere(self._files, *self._places)
