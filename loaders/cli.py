"""What the commands share: one-line errors, exit codes, and help that reads like a page.

Exit codes: 0 all well; 1 a task failed; 2 the request cannot be met; 130 interrupted.
"""

from __future__ import annotations

import argparse
import io
import sys
from collections.abc import Callable
from typing import NoReturn

from jfinteb.loaders.errors import JfintebError, UsageError

__all__ = ["Parser", "guarded", "names"]


class Parser(argparse.ArgumentParser):
    """An `ArgumentParser` whose errors are one line."""

    def __init__(self, **kwargs: object) -> None:
        super().__init__(
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
            **kwargs,  # type: ignore[arg-type]
        )

    def error(self, message: str) -> NoReturn:
        """Print the message as one line and exit with 2."""
        print(f"error: {message}; see {self.prog} --help", file=sys.stderr)
        raise SystemExit(2)


def names(text: str) -> tuple[str, ...]:
    """A comma-separated list; for `type=` of an option.

    Raises:
        argparse.ArgumentTypeError: nothing in it.
    """
    found = tuple(part.strip() for part in text.split(",") if part.strip())
    if not found:
        raise argparse.ArgumentTypeError("found no name, expected a list such as a,b")
    return found


def guarded(command: Callable[[], int]) -> int:
    """Run a command; turn errors that a user can mend into one line on stderr."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a code page without "–" should cost no result
            stream.reconfigure(errors="replace")
    try:
        for argument in sys.argv[1:]:
            if not argument.isprintable() and _surrogates(argument):
                raise UsageError(f"argument {argument!r} is not UTF-8")
        code = command()
        if sys.stdout is not None:
            sys.stdout.flush()
        return code
    except JfintebError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:
        sys.stderr.close()
        return 0
    except OSError as error:
        print(f"error: {error.strerror or error}: {error.filename or 'output'}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(
            "interrupted; what was finished is kept, and the same command goes on from there",
            file=sys.stderr,
        )
        return 130


def _surrogates(text: str) -> bool:
    """Whether text came from bytes that are not UTF-8."""
    return any("\ud800" <= character <= "\udfff" for character in text)
