"""Where rows stand: a package folder, the repository on the hub, or the embedded sample."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from jfinteb.loaders import sample
from jfinteb.loaders.errors import DataError, UnavailableError, UsageError
from jfinteb.loaders.manifest import MANIFEST, former_package
from jfinteb.loaders.schema import make_table
from jfinteb.loaders.task import Task

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = [
    "HUB_REPOSITORY",
    "HUB_REVISION",
    "SAMPLE",
    "Folder",
    "Hub",
    "Origin",
    "Sample",
    "open_origin",
    "parquet_path",
]

HUB_REPOSITORY = "retarfi/jfinteb"
HUB_REVISION = "v1.0.0"
SAMPLE = "sample"


class Origin(Protocol):
    """A place that has tables of tasks."""

    @property
    def name(self) -> str:
        """What results call this origin."""
        ...

    @property
    def declared(self) -> bool:
        """Whether the cards' row counts and digests hold for it."""
        ...

    def table(self, task: Task, split: str) -> pa.Table:
        """Rows of a split, not verified yet."""
        ...

    def manifest(self) -> Path | None:
        """The file that tells what the rows were when they were built, if there is one."""
        ...


def parquet_path(task: Task, split: str) -> str:
    """Path of a split inside a package, the same in a folder and on the hub."""
    return f"data/{task.config_of(split)}/{split}.parquet"


@dataclass(frozen=True)
class Folder:
    """A package folder, as `python -m jfinteb.build` writes it."""

    path: Path
    declared: bool = True

    @property
    def name(self) -> str:
        """What results call this origin."""
        return f"folder {self.path.name}"

    def manifest(self) -> Path | None:
        """The package's own manifest."""
        path = self.path / MANIFEST
        return path if path.is_file() else None

    def table(self, task: Task, split: str) -> pa.Table:
        """Read the split's parquet file."""
        file = self.path / parquet_path(task, split)
        if not file.is_file():
            have = sorted(p.name for p in self.path.glob("data/*") if "-" not in p.name)
            if not have:
                raise UnavailableError(
                    f"{task.name}: {self.path} is no package (it has no data/); build one with "
                    "python -m jfinteb.build --source RAW --out hub"
                )
            raise UnavailableError(
                f"{task.name}/{split}: not in {self.path}, which has {', '.join(have)}; get its "
                f"raw files from {task.source.url} and add it with python -m jfinteb.build "
                f"--source RAW --tasks {task.name} --out {self.path}"
            )
        return _read_parquet(file, task, split)


@dataclass(frozen=True)
class Hub:
    """The dataset repository on the Hugging Face hub, at a fixed revision."""

    repository: str
    revision: str
    declared: bool = True
    unreachable: list[str] = field(default_factory=list, repr=False)

    @property
    def name(self) -> str:
        """What results call this origin."""
        return f"hub {self.repository}@{self.revision}"

    def manifest(self) -> Path | None:
        """The repository's manifest."""
        try:
            return self._download(MANIFEST)
        except UnavailableError:
            return None

    def table(self, task: Task, split: str) -> pa.Table:
        """Download the split's parquet file, or take it from the hub's cache.

        Raises:
            UnavailableError: it cannot be had; for rows that may not be redistributed, the message
                names the command that makes them.
        """
        try:
            file = self._download(parquet_path(task, split))
        except UnavailableError as error:
            if not task.redistributable and not self.unreachable:
                raise UnavailableError(
                    f"{task.name}: not in {self.repository}, since its rows may not be "
                    f"redistributed; build all tasks with python -m jfinteb.build --fetch --out "
                    "hub, then give --data hub"
                ) from error
            raise UnavailableError(f"{task.name}: {error}") from error
        return _read_parquet(file, task, split)

    def _download(self, path: str) -> Path:
        from huggingface_hub import hf_hub_download
        from huggingface_hub.errors import GatedRepoError, HfHubHTTPError

        if self.unreachable:  # the client tries for long; one try tells for all files
            raise UnavailableError(self.unreachable[0])
        try:
            return Path(
                hf_hub_download(self.repository, path, repo_type="dataset", revision=self.revision)
            )
        except GatedRepoError as error:
            raise UnavailableError(
                f"{self.repository} is gated; accept its terms on its page and log in with "
                "`hf auth login`"
            ) from error
        except Exception as error:  # the client raises many kinds; each means: not to be had
            message = (
                f"cannot get {path} of {self.repository} at {self.revision} "
                f"({type(error).__name__}); offline, give a folder made by python -m jfinteb.build "
                "as data"
            )
            if not isinstance(error, HfHubHTTPError):  # no answer, as against a refusal
                self.unreachable.append(message)
            raise UnavailableError(message) from error


@dataclass(frozen=True)
class Sample:
    """The embedded synthetic suite: for trying the tool, never for judging a model."""

    name: str = SAMPLE
    declared: bool = False

    def manifest(self) -> None:
        """None: the rows are made anew each time."""

    def table(self, task: Task, split: str) -> pa.Table:
        """Generate the split."""
        rows = sample.rows(task.name, task.kind.value, task.labels)
        return make_table(task, split, rows[split])


def open_origin(data: str | Path | None = None) -> Origin:
    """The origin that a `data` argument means.

    Args:
        data: None for the default repository; `"sample"`; a folder; or `owner/name[@revision]`.
            As in `load_dataset`, a local folder of that name comes before the hub.

    Raises:
        UsageError: neither a folder nor a repository name.
    """
    if data == SAMPLE:
        return Sample()
    if data is not None and not str(data).strip():
        raise UsageError("data is empty, expected a package folder, a hub repository or 'sample'")
    text = str(data) if data is not None else HUB_REPOSITORY
    if Path(text).is_dir():
        return Folder(Path(text).resolve())
    kept = former_package(Path(text).absolute())
    if kept is not None:
        raise UsageError(
            f"no folder {text!r}; a build that was killed keeps the former one in {kept}: build "
            "again, or move it back"
        )
    repository, _, revision = text.partition("@")
    if isinstance(data, Path) or repository.count("/") != 1 or text.startswith((".", "/", "~")):
        raise UsageError(
            f"no folder {text!r}; expected a package folder (python -m jfinteb.build --source DIR "
            f"--out {text}), a hub repository such as {HUB_REPOSITORY}, or 'sample'"
        )
    default = HUB_REVISION if repository == HUB_REPOSITORY else "main"
    return Hub(repository, revision or default)


def _read_parquet(file: Path, task: Task, split: str) -> pa.Table:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(file) as opened:  # `read_table` would import pandas first
            table: pa.Table = opened.read().replace_schema_metadata()
        table.validate(full=True)  # text that is not UTF-8 would fail only where it is read
        return table
    except (pa.ArrowException, OSError, ValueError) as error:  # ValueError: names not in UTF-8
        raise DataError(
            f"{task.name}/{split}: {file} is no parquet file ({_short(error)}); build or fetch it "
            "again"
        ) from error


def _short(error: BaseException) -> str:
    return str(error).splitlines()[0][:120] if str(error) else type(error).__name__
