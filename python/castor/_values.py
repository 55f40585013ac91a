# SPDX-License-Identifier: Apache-2.0
"""Values that programs state: their types, checked before the core reads them."""

from __future__ import annotations

import os
from numbers import Integral, Real
from types import NoneType, UnionType
from typing import Any, get_args, get_origin

import torch

from castor._errors import Error

NUMBERS = {int: Integral, float: Real}  # those of numpy too
WORDS = {
    bool: "True, False",
    int: "a whole number",
    float: "a number",
    str: "text",
    os.PathLike: "a path",
    torch.dtype: "a dtype",
    NoneType: "None",
}


def check_value(name: str, value: object, takes: str, is_taken: bool) -> None:
    """takes: the values that the option `name` takes, in words. is_taken: whether `value` is one."""
    if not is_taken:
        raise Error(f"{name} takes {takes}, not {value!r}", "usage", name)


def is_number(value: object) -> bool:
    return type(value) is float or fits(value, float)


def fits(value: object, hint: Any) -> bool:
    """Whether `value` is of an annotated type. Truth values are no numbers."""
    if hint is Any:
        return True
    if isinstance(hint, UnionType):
        return any(fits(value, each) for each in get_args(hint))
    if get_origin(hint) is not None:  # several
        return isinstance(value, get_origin(hint)) and all(fits(each, get_args(hint)[0]) for each in value)
    return isinstance(value, NUMBERS.get(hint, hint)) and (hint not in NUMBERS or not isinstance(value, bool))


def words_of(hint: Any) -> str:
    """A type, or several, as messages name them."""
    words = ", ".join(WORDS.get(each, str(each)) for each in get_args(hint) or (hint,))
    return " or ".join(words.rsplit(", ", 1))
