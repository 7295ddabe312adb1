"""The tasks of JFinTEB and their data.

>>> from jfinteb.loaders import get_task, load
>>> get_task("chabsa").labels
('negative', 'positive')
>>> load("chabsa", "test", data="sample").features["label"].names
['negative', 'positive']
"""

from __future__ import annotations

from jfinteb.loaders.data import load
from jfinteb.loaders.errors import DataError, JfintebError, UnavailableError, UsageError
from jfinteb.loaders.task import Kind, Role, Task, get_suite, get_task, suites, task_names

__all__ = [
    "DataError",
    "JfintebError",
    "Kind",
    "Role",
    "Task",
    "UnavailableError",
    "UsageError",
    "get_suite",
    "get_task",
    "load",
    "suites",
    "task_names",
]
