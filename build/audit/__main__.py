"""`python -m jfinteb.build.audit`."""

from __future__ import annotations

import sys

from jfinteb.build.audit.core import main

if __name__ == "__main__":
    sys.exit(main())
