# SPDX-License-Identifier: Apache-2.0
"""Parameters outside of their units: their weights, gradients and fp32 masters."""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import torch
from torch import nn

from castor import _core
from castor._errors import Error


@dataclass
class Place:
    """Where the values of a boosted parameter are: the attribute castor_place of the parameter. The session owns the
    parameter's memory, so this does not own the session."""

    session: weakref.ref[_core.Session]
    name: str
    n_gathered: int = 0  # the contexts of gathered() that it is in
    given: tuple[weakref.ref, weakref.ref] | None = None  # the last state_dict that has its weight, and that tensor

    def given_to(self, state_dict: dict) -> torch.Tensor | None:
        return self.given[1]() if self.given and self.given[0]() is state_dict else None


def give_places(names: dict[nn.Parameter, str], session: _core.Session) -> None:
    for parameter, name in names.items():
        parameter.castor_place = Place(weakref.ref(session), name)


def place_of(parameter: torch.Tensor) -> tuple[_core.Session, str] | None:
    """The session and the name of a boosted parameter; None for any other tensor."""
    place = getattr(parameter, "castor_place", None)
    session = place.session() if place else None
    return (session, place.name) if session else None


def boosted(parameter: torch.Tensor) -> tuple[_core.Session, str]:
    place = place_of(parameter)
    if place is None:
        raise Error("the tensor is no parameter of a model that was boosted", "usage")
    return place


@contextlib.contextmanager
def gathered(of: nn.Module | Iterable[nn.Parameter] | nn.Parameter, write: bool = False) -> Iterator[None]:
    """Within it the parameters of a boosted model (all of `of`) can be used outside of the model's forward pass, on its
    device. write: what is written to them in place becomes their values and masters; otherwise it is undefined.

    Raises castor.Error within a step, and where the device budget does not hold them all.
    """
    if isinstance(of, nn.Module):
        parameters = list(of.parameters())
    else:
        parameters = [of] if isinstance(of, torch.Tensor) else list(of)
    names: dict[_core.Session, list[str]] = {}
    for place in filter(None, map(place_of, parameters)):
        names.setdefault(place[0], []).append(place[1])
    with contextlib.ExitStack() as stack:
        for session, its_names in names.items():
            session.acquire(its_names, write)
            stack.callback(session.release, its_names, write)
        places = [parameter.castor_place for parameter in parameters if place_of(parameter)]
        for place in places:
            place.n_gathered += 1
        try:
            yield
        finally:
            for place in places:
                place.n_gathered -= 1


def grad(parameter: nn.Parameter) -> torch.Tensor | None:
    """A copy of the gradient so far in this step, in fp32 on the host; None where there is none."""
    session, name = boosted(parameter)
    return None if parameter.grad is None else session.read_gradient(name)


def set_grad(parameter: nn.Parameter, values: torch.Tensor) -> None:
    """Replaces the gradient of this step."""
    session, name = boosted(parameter)
    session.write_gradient(name, values)


def master(parameter: nn.Parameter) -> torch.Tensor:
    """A copy of the fp32 values that the optimizer updates, on the host."""
    session, name = boosted(parameter)
    return session.read_master(name)
