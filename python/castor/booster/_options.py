# SPDX-License-Identifier: Apache-2.0
"""Options of plugins: the fields of their dataclasses, with what is to be known of each beside its name and default."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable
from dataclasses import Field, field, fields
from typing import TYPE_CHECKING, Any, get_type_hints

from castor._errors import Error, nearest
from castor._values import check_value, fits, words_of

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


def option(
    default: Any,
    *,
    unused: str = "",
    choices: tuple = (),
    takes: str = "",
    within: Callable[[Any], bool] | None = None,
    core: bool = False,
    kw_only: bool = True,
) -> Any:
    """A field. unused: why the option changes nothing. takes: the values that it takes, in words; empty: those of its
    annotation. within: whether a value of that type is one of them. core: it is passed on to the plugin of the core."""
    known = {"unused": unused, "choices": choices, "takes": takes, "within": within, "core": core}
    return field(default=default, kw_only=kw_only, metadata=known)


def unused(default: Any, why: str) -> Any:
    return option(default, unused=why)


def of_core(default: Any = None, takes: str = "") -> Any:
    """None: the default of the core, which checks the range of numbers."""
    return option(default, takes=takes, core=True)


def size_of_core() -> Any:
    return of_core(takes="bytes as a number, or text as '8GiB'")


def check_names(plugin: type[DataclassInstance], given: Iterable[str]) -> None:
    check_known(plugin.__name__, [each.name for each in fields(plugin)], given)


def check_known(owner: str, known: list[str], given: Iterable[str]) -> None:
    """known: the options of a plugin or a method, the owner; given: those that a program names."""
    for name in given:
        if name not in known:
            raise Error(f"{owner} has no option {name}{nearest(name, known)}", "usage", name)


def check_types(plugin: DataclassInstance) -> None:
    """Of options with an effect; those of a few values are for check_choices."""
    hints = get_type_hints(type(plugin))
    for each in fields(plugin):
        if not each.metadata.get("unused") and not each.metadata.get("choices"):
            value, within = getattr(plugin, each.name), each.metadata.get("within")
            takes = each.metadata.get("takes") or words_of(hints[each.name])
            is_taken = fits(value, hints[each.name]) and (value is None or within is None or within(value))
            check_value(each.name, value, takes, is_taken)


def check_choices(plugin: DataclassInstance) -> None:
    for each in fields(plugin):
        value, choices = getattr(plugin, each.name), each.metadata.get("choices", ())
        if choices and value not in choices:
            names = [str(choice) for choice in choices if choice is not None]
            raise Error(f"{each.name} takes one of {', '.join(names)}, not {value!r}{nearest(value, names)}", "usage", each.name)


def is_given(plugin: DataclassInstance, each: Field) -> bool:
    value = getattr(plugin, each.name)
    return value is not each.default and value != each.default


def warn_of(plugin: DataclassInstance, name: str, why: str, n_calls: int = 3) -> None:
    """As if the program's own line warned, with `n_calls` between it and the caller: where it makes the plugin, __init__,
    __post_init__, and its helper."""
    warnings.warn(f"{type(plugin).__name__}({name}=…) has no effect: {why}", stacklevel=n_calls + 2)


def warn_of_unused(plugin: DataclassInstance) -> None:
    for each in fields(plugin):
        if each.metadata.get("unused") and is_given(plugin, each):
            warn_of(plugin, each.name, each.metadata["unused"])


def core_options(plugin: DataclassInstance) -> dict[str, str]:
    given = [each for each in fields(plugin) if each.metadata.get("core") and is_given(plugin, each)]
    return {each.name: text_of(getattr(plugin, each.name)) for each in given}


def text_of(value: Any) -> str:
    """An option as the core reads it: a comma within an element of a list is written with a backslash."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, os.PathLike):
        return text_of([value])
    if isinstance(value, (list, tuple)):
        return ",".join(os.fspath(item).replace("\\", "\\\\").replace(",", "\\,") for item in value)
    return str(value)
