# SPDX-License-Identifier: Apache-2.0
"""Loggers of Python's `logging` that know the rank."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Container, Iterable
from pathlib import Path

from castor._errors import Error, nearest
from castor._ranks import rank_of

__all__ = ["DistributedLogger", "disable_existing_loggers", "get_dist_logger"]

FORMAT = logging.Formatter("%(name)s - %(levelname)s: %(message)s")
LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR")


class Console(logging.StreamHandler):
    """Writes to stderr as long as the program has set up no logging of its own, which then gets the messages."""

    def __init__(self) -> None:
        super().__init__(sys.stderr)
        self.setFormatter(FORMAT)

    def emit(self, record: logging.LogRecord) -> None:
        if not logging.root.handlers:
            super().emit(record)


class DistributedLogger:
    """The logger `name` of Python's logging; `ranks` of its methods says which ranks write the message, None all."""

    def __init__(self, name: str):
        self.logger = logging.getLogger(name)
        if self.logger.level == logging.NOTSET:
            self.logger.setLevel(logging.INFO)
        if not any(isinstance(handler, Console) for handler in self.logger.handlers):
            self.logger.addHandler(Console())

    def debug(self, message: str, ranks: Container[int] | None = None) -> None:
        self._log(logging.DEBUG, message, ranks)

    def info(self, message: str, ranks: Container[int] | None = None) -> None:
        self._log(logging.INFO, message, ranks)

    def warning(self, message: str, ranks: Container[int] | None = None) -> None:
        self._log(logging.WARNING, message, ranks)

    def error(self, message: str, ranks: Container[int] | None = None) -> None:
        self._log(logging.ERROR, message, ranks)

    def _log(self, level: int, message: str, ranks: Container[int] | None) -> None:
        if ranks is None or rank_of() in ranks:
            self.logger.log(level, "%s", message, stacklevel=3)

    def set_level(self, level: str) -> None:
        self.logger.setLevel(checked(level))

    def log_to_file(self, path: str | os.PathLike, mode: str = "a", level: str = "INFO", suffix: str | None = None) -> None:
        """Messages from `level` on go to the file rank_N.log, or rank_N_SUFFIX.log, in the folder `path` as well."""
        checked(level)
        folder = Path(path)
        folder.mkdir(parents=True, exist_ok=True)
        handler = logging.FileHandler(folder / f"rank_{rank_of()}{'_' + suffix if suffix else ''}.log", mode)
        handler.setLevel(level)
        handler.setFormatter(FORMAT)
        self.logger.addHandler(handler)


def checked(level: str) -> str:
    if level not in LEVELS:
        raise Error(f"level takes one of {', '.join(LEVELS)}, not {level!r}{nearest(level.upper(), LEVELS)}", "usage", "level")
    return level


def get_dist_logger(name: str = "castor") -> DistributedLogger:
    """A logger that shows messages from INFO on."""
    return DistributedLogger(name)


def disable_existing_loggers(include: Iterable[str] | None = None, exclude: Iterable[str] = ("castor",)) -> None:
    """Loggers that exist show warnings and errors alone: those named in `include`, or all but those in `exclude`."""
    include = None if include is None else set(include)
    exclude = set(exclude)
    for name, logger in list(logging.root.manager.loggerDict.items()):
        chosen = name in include if include is not None else name not in exclude
        if chosen and isinstance(logger, logging.Logger):
            logger.setLevel(logging.WARNING)
