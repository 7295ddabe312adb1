"""The audit of a package: `python -m jfinteb.build.audit --help`."""

from __future__ import annotations

from jfinteb.build.audit.core import TaskAudit, audit, main

__all__ = ["TaskAudit", "audit", "main"]
