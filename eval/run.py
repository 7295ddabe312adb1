"""Score a model: `python eval/run.py --help`. Works from a clone, installed or not."""

from __future__ import annotations

import sys
import types
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def bootstrap() -> None:
    """Let `jfinteb.*` mean this clone's folders, as an editable install would."""
    sys.path[:] = [entry for entry in sys.path if Path(entry or ".").resolve() != ROOT / "eval"]
    package = types.ModuleType("jfinteb")
    package.__path__ = [str(ROOT)]
    sys.modules.setdefault("jfinteb", package)


if __name__ == "__main__":
    bootstrap()
    try:
        from jfinteb.eval.cli import run_main
    except ModuleNotFoundError as error:
        sys.exit(
            f"error: no module {error.name!r} in this Python; activate the environment of "
            "`make demo` (source .venv/bin/activate), or pip install -e ."
        )
    sys.exit(run_main())
