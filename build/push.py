"""Push a package to a dataset repository on the hub: checked whole, uploaded, tagged.

Nothing is sent before all checks have passed. The token is the one that `hf auth login` or HF_TOKEN
gives to `huggingface_hub`; it is never read here.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from jfinteb.build.release import audit_errors, faults, files_of, read_manifest
from jfinteb.loaders.cli import Parser, guarded
from jfinteb.loaders.errors import DataError, JfintebError, UnavailableError, UsageError

if TYPE_CHECKING:
    from huggingface_hub import HfApi

__all__ = ["main", "push"]

_TAG = re.compile(r"v?\d+(\.\d+){1,2}([-+.]?[a-z0-9]+)*")
_HELP = """\
Push a package folder to a dataset repository on the hub and tag it with its version.

Refuses a package whose rows are not those of its manifest and cards, that holds rows which may not
be redistributed, whose cards the hub would not take, or whose audit finds errors. Files of the
repository that the package lacks are deleted. A tag is never moved. Log in with `hf auth login`,
or set HF_TOKEN.
"""
_EXAMPLES = """\
examples:
  python -m jfinteb.build.push hub --to owner/name --tag v1.0.0 --dry-run
  python -m jfinteb.build.push hub --to owner/name --tag v1.0.0 --private
"""
Audit = Callable[[Path], Sequence[str]]


def push(
    package: Path,
    repository: str,
    tag: str,
    *,
    private: bool = False,
    console: Console,
    audit: Audit | None = None,
    dry_run: bool = False,
) -> str:
    """Check a package, upload it and tag it.

    Args:
        package: folder, as `python -m jfinteb.build` writes it.
        repository: `owner/name` of a dataset repository; made where it does not exist.
        tag: the version, e.g. `"v1.0.0"`.
        private: make the repository private; one that exists and is public is refused then.
        console: where faults and progress are told.
        audit: gives the errors of a package, one line each; None: no audit.
        dry_run: check, and send nothing.

    Returns:
        The commit that the tag names; empty in a dry run.

    Raises:
        UsageError: no such folder, no repository name, no version, or the tag exists.
        DataError: the package is not fit to be published; `console` has every reason.
        UnavailableError: the hub cannot be reached or refuses.
    """
    _check_name(repository)
    if not _TAG.fullmatch(tag):
        raise UsageError(f"found tag {tag!r}, expected a version such as v1.0.0")
    manifest = read_manifest(package)
    found = faults(package, manifest)
    if audit is not None and not found:
        found = [f"audit: {error}" for error in audit(package)]
    for fault in found:
        console.print(f"fault: {fault}", markup=False, highlight=False, soft_wrap=True)
    if found:
        more = f" and {len(found) - 1} more" if len(found) > 1 else ""
        raise DataError(f"{package}: nothing was pushed: {found[0]}{more}")
    files = sorted(files_of(manifest))
    if dry_run:
        return ""
    commit = _upload(package, files, repository, tag, private)
    console.print(f"{repository}: {len(files)} files, tag {tag}, commit {commit}", markup=False)
    return commit


def _upload(package: Path, files: list[str], repository: str, tag: str, private: bool) -> str:
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HfHubHTTPError

    sent = False
    try:
        api = HfApi()
        api.create_repo(repository, repo_type="dataset", private=private, exist_ok=True)
        _check_repository(api, repository, tag, private)
        sent = True  # from here on, some of it may be there
        commit = api.upload_folder(
            repo_id=repository,
            repo_type="dataset",
            folder_path=package,
            allow_patterns=files,
            delete_patterns=["*"],
            commit_message=f"jfinteb {tag}",
        ).oid
        api.create_tag(repository, repo_type="dataset", tag=tag, revision=commit)
    except JfintebError:
        raise
    except HfHubHTTPError as error:
        status = error.response.status_code
        hint = "; log in with `hf auth login` or set HF_TOKEN" if status in (401, 403) else ""
        done = "what was sent has no tag yet, run it again" if sent else "nothing was sent"
        raise UnavailableError(
            f"cannot push to {repository}: {type(error).__name__}, HTTP {status}{hint}; {done}"
        ) from error
    except ValueError as error:  # how the client tells what the hub says of the README
        raise DataError(f"{repository}: the hub refuses the package: {error}") from error
    except Exception as error:  # the transport raises many kinds; each means: no connection
        raise UnavailableError(
            f"cannot push to {repository}: no connection ({type(error).__name__})"
        ) from error
    return commit


def _check_name(repository: str) -> None:
    from huggingface_hub.errors import HFValidationError
    from huggingface_hub.utils import validate_repo_id  # type: ignore[attr-defined]

    try:
        validate_repo_id(repository)
    except HFValidationError as error:
        raise UsageError(f"found repository {repository!r}: {error}") from error
    if "/" not in repository:
        raise UsageError(f"found repository {repository!r}, expected owner/name")


def _check_repository(api: HfApi, repository: str, tag: str, private: bool) -> None:
    """Before anything is uploaded: the repository is as private as asked, and the tag is free."""
    if private and not api.dataset_info(repository).private:
        raise UsageError(f"{repository} exists and is public; push without --private or elsewhere")
    tags = {ref.name for ref in api.list_repo_refs(repository, repo_type="dataset").tags}
    if tag in tags:
        raise UsageError(f"{repository} has a tag {tag}, and a tag is never moved; raise --tag")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit code."""
    parser = Parser(prog="python -m jfinteb.build.push", description=_HELP, epilog=_EXAMPLES)
    parser.add_argument("package", type=Path, metavar="FOLDER", help="package folder")
    parser.add_argument("--to", required=True, metavar="OWNER/NAME", help="dataset repository")
    parser.add_argument("--tag", required=True, metavar="VERSION", help="e.g. v1.0.0")
    parser.add_argument("--private", action="store_true", help="only for you to see")
    parser.add_argument("--dry-run", action="store_true", help="check, and send nothing")
    args = parser.parse_args(argv)

    def run() -> int:
        console = Console(stderr=True)
        commit = push(
            args.package,
            args.to,
            args.tag,
            private=args.private,
            console=console,
            audit=audit_errors,
            dry_run=args.dry_run,
        )
        if not commit:
            for name in sorted(files_of(read_manifest(args.package))):
                print(f"{(args.package / name).stat().st_size:>12,}  {name}")
            print(f"fit to be pushed to {args.to} as {args.tag}; nothing was sent")
        return 0

    return guarded(run)


if __name__ == "__main__":
    sys.exit(main())
