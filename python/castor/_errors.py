# SPDX-License-Identifier: Apache-2.0
"""The exception of everything that Castor refuses or cannot do."""

from __future__ import annotations

from collections.abc import Iterable


class Error(RuntimeError):
    """What was asked, the numbers, and what to do, in one sentence.

    kind: 'usage', 'does_not_fit', 'io', 'plugin', 'interrupted' or 'failed'.
    option: the option to change, or None.
    tier, needed, available: of a tier that lacked room, its name and bytes; else None.
    """

    def __init__(
        self,
        message: str,
        kind: str = "failed",
        option: str | None = None,
        tier: str | None = None,
        needed: int | None = None,
        available: int | None = None,
    ):
        super().__init__(message)
        self.kind = kind
        self.option = option
        self.tier = tier
        self.needed = needed
        self.available = available

    def of_argument(self, option: str, argument: str) -> Error:
        """The same error, where the core's `option` is `argument` of a call."""
        text = str(self).replace(f"`{option}` ", "").replace(f"`{option}`", f"`{argument}`")
        name = argument if self.option == option else self.option
        return Error(text, self.kind, name, self.tier, self.needed, self.available)

    def after(self, cause: str) -> Error:
        """The same error, of which `cause` begins the sentence."""
        return Error(f"{cause}: {self}", self.kind, self.option, self.tier, self.needed, self.available)


def nearest(name: object, known: Iterable[str]) -> str:
    """The end of a message about an unknown name: a question for the most similar known one, or nothing."""
    import difflib

    found = difflib.get_close_matches(name, known, 1) if isinstance(name, str) else []
    return f"; did you mean {found[0]}?" if found else ""
