# SPDX-License-Identifier: Apache-2.0
"""Parameters outside of their units: their weights, gradients and fp32 masters."""

from __future__ import annotations

import contextlib
import os
import weakref
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import torch
from torch import nn

from castor import _core
from castor._errors import Error
from castor._forks import SESSIONS
from castor._stored import all_stored, rebuilt, stored


@dataclass
class Lending:
    """Of a session."""

    n_parameters: int = 0  # in contexts of gathered(), each time


@dataclass
class Place:
    """Where the values of a boosted parameter are: the attribute castor_place of the parameter. The session owns the
    parameter's memory, so this does not own the session."""

    session: weakref.ref[_core.Session]
    name: str
    waiting: set[str]  # the parameters of the session that have no values yet, by name
    lending: Lending
    n_gathered: int = 0  # the contexts of gathered() that it is in
    n_written: int = 0  # those with write=True that have ended
    written_version: int = 0  # of the parameter at the end of the last of them
    given: tuple[weakref.ref, weakref.ref] | None = None  # the last state_dict that has its weight, and that tensor

    def __reduce__(self) -> tuple:
        raise Error(not_pickled(f"parameter {self.name}"), "usage")

    def given_to(self, state_dict: dict) -> torch.Tensor | None:
        return self.given[1]() if self.given and self.given[0]() is state_dict else None


def not_pickled(part: str) -> str:
    return f"{part} belongs to a boosted model and cannot be pickled without it; save model.state_dict(), or the model as a whole"


def give_places(names: dict[nn.Parameter, str], session: _core.Session, waiting: set[str]) -> Lending:
    lending = Lending()
    for parameter, name in names.items():
        parameter.castor_place = Place(weakref.ref(session), name, waiting, lending)
    return lending


def place_of(parameter: torch.Tensor) -> tuple[_core.Session, str] | None:
    """The session and the name of a boosted parameter; None for any other tensor."""
    place = getattr(parameter, "castor_place", None)
    session = place.session() if place else None
    return (session, place.name) if session else None


def is_boosted_parameter(parameter: torch.Tensor) -> bool:
    return any(map(place_of, stored(parameter).values()))


def weight_of(parameter: torch.Tensor) -> torch.Tensor:
    """A copy on the host of what a boosted parameter computes with."""

    def read(tensor: torch.Tensor) -> torch.Tensor:
        session, name = boosted(tensor)
        return session.read_weight(name)

    return rebuilt(parameter, read)


def boosted(parameter: torch.Tensor) -> tuple[_core.Session, str]:
    place = place_of(parameter)
    if place is None and is_boosted_parameter(parameter):
        raise Error(f"the parameter is of class {type(parameter).__name__} and frozen; it has neither gradient nor master", "usage")
    if place is None:
        raise Error("the tensor is no parameter of a model that was boosted", "usage")
    return place


@contextlib.contextmanager
def gathered(
    of: nn.Module | Iterable[nn.Parameter | tuple[str, nn.Parameter]] | nn.Parameter, write: bool = False
) -> Iterator[None]:
    """Within it the parameters of a boosted model (all of `of`) can be used outside of the model's forward pass, on its
    device; under torch.no_grad() modules can be called whose parameters are all among them. write: what is written to them,
    in place or as their `data`, becomes their values and masters.

    Raises castor.Error where none of them is of a boosted model, and where the device budget does not hold them all; with
    `write` within a step; from the last backward pass of a step to its end, where micro_batches says which pass that is. At its
    end, where one was written without `write` (its bits are summed before and after): its values are undefined then.
    """
    parameters = parameters_of(of)
    names: dict[_core.Session, list[str]] = {}
    for place in filter(None, map(place_of, parameters)):
        names.setdefault(place[0], []).append(place[1])
    with contextlib.ExitStack() as stack:
        for session, its_names in names.items():
            session.acquire(its_names, write)
            stack.callback(session.release, its_names, write)
        boosted_ones = [parameter for parameter in parameters if place_of(parameter)]
        memory = [parameter.data for parameter in boosted_ones] if write else []
        for parameter in boosted_ones:
            parameter.castor_place.n_gathered += 1
            parameter.castor_place.lending.n_parameters += 1
        try:
            seen = [] if write else values_seen(boosted_ones)
            yield
            if not write:
                check_unwritten(boosted_ones, seen)
        finally:
            for parameter in boosted_ones:
                place = parameter.castor_place
                place.n_gathered -= 1
                place.lending.n_parameters -= 1
            for parameter, its_memory in zip(boosted_ones, memory):
                keep_in(its_memory, parameter)
                parameter.castor_place.waiting.discard(parameter.castor_place.name)
                parameter.castor_place.written_version = parameter._version
                parameter.castor_place.n_written += 1


def keep_in(memory: torch.Tensor, parameter: nn.Parameter) -> None:
    """Values of other memory, which the parameter was given with `data`, go to its own."""
    given = parameter.data
    alike = given.shape == memory.shape and given.dtype == memory.dtype and given.device == memory.device
    if alike and given.untyped_storage()._cdata != memory.untyped_storage()._cdata:
        parameter.data = memory.copy_(given)


@torch.no_grad()
def values_seen(parameters: list[nn.Parameter]) -> list[tuple[int, int, int]]:
    """Of each how often castor.gathered has written it, its version, and the sum of its bits as whole numbers: writing to its
    `data` changes no version."""
    of_size = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
    sums = [parameter.data.view(of_size[parameter.itemsize]).sum(dtype=torch.int64) for parameter in parameters]
    values = torch.stack(sums).tolist() if sums else []
    return [(parameter.castor_place.n_written, parameter._version, value) for parameter, value in zip(parameters, values)]


def check_unwritten(parameters: list[nn.Parameter], seen: list[tuple[int, int, int]]) -> None:
    """seen: when they were gathered."""
    for parameter, (n_written, version, value), (n_now, version_now, value_now) in zip(parameters, seen, values_seen(parameters)):
        allowed = (version, value) if n_now == n_written else (parameter.castor_place.written_version, value_now)
        if (version_now, value_now) != allowed:
            raise Error(
                f"parameter {parameter.castor_place.name} was written within castor.gathered without write=True, with which that "
                "becomes its value; its weights are undefined now: load them, or write them again, between two steps, of which "
                "zero_grad() drops one under way",
                "usage",
            )


def parameters_of(of: nn.Module | Iterable | nn.Parameter) -> list[nn.Parameter]:
    """Of a model, of several or one, or of pairs with names; some of them of a boosted model."""
    if isinstance(of, nn.Module):
        found: list[torch.Tensor] = list(of.parameters())
    else:
        several = of if isinstance(of, Iterable) and not isinstance(of, torch.Tensor) else [of]
        found = [one[1] if isinstance(one, tuple) and len(one) == 2 else one for one in several]
    for one in found:
        if not isinstance(one, torch.Tensor):
            raise Error(f"castor.gathered takes a model, parameters or pairs of names and parameters, not {one!r}", "usage")
    found = all_stored(found)
    if found and not any(map(place_of, found)):
        raise Error("castor.gathered was given no parameter of a model that was boosted; boost the model first", "usage")
    return found


def grad(parameter: nn.Parameter) -> torch.Tensor | None:
    """A copy of the gradient so far in this step, in fp32 on the host, as of the loss before it was scaled; None where there
    is none."""
    session, name = boosted(parameter)
    return None if parameter.grad is None else session.read_gradient(name).div_(session.loss_scale())


def set_grad(parameter: nn.Parameter, values: torch.Tensor) -> None:
    """Replaces the gradient of this step by `values`, as castor.grad gives them."""
    session, name = boosted(parameter)
    if not isinstance(values, torch.Tensor) or values.layout != torch.strided:
        what = f"one in {values.layout}" if isinstance(values, torch.Tensor) else repr(values)
        raise Error(
            f"set_grad takes a dense tensor with the gradient of {name}, not {what}; optimizer.zero_grad() drops all gradients",
            "usage",
        )
    session.write_gradient(name, values * session.loss_scale())


def stats(model: nn.Module) -> dict:
    """Counters of a boosted model's training since its start: used_bytes, peak_bytes and budget_bytes (None: no limit) by
    tier (device, host, nvme), on a GPU with all that torch holds there; moved_bytes by link (h2d, d2h, nvme_read,
    nvme_write); wait_seconds and update_seconds of the training thread; bound_seconds, the least that a step can take
    on this machine, and bound_by what (0 and '' as long as it is not known)."""
    return session_of(model).stats()


def trace(model: nn.Module, file: str | os.PathLike) -> None:
    """Writes the events of a boosted model's training so far, for `castor memprof` and `castor plan` (docs/trace.md)."""
    session_of(model).trace(os.fspath(file))


@contextlib.contextmanager
def profile(file: str | os.PathLike, model: nn.Module | None = None) -> Iterator[None]:
    """Writes the events of the training, from its first step on, to `file` when the block ends, by an exception too: `castor
    memprof FILE` prints them, `castor memprof FILE --html PAGE` draws a step of them. The model lives until then. model: which,
    where several were boosted, or it would be gone."""
    _core.check_file(os.fspath(file))
    if model is not None:
        session_of(model)

    def write() -> None:
        session = session_of(model) if model is not None else only_session()
        session.trace(os.fspath(file))

    try:
        yield
    except BaseException:
        with contextlib.suppress(Error):
            write()
        raise
    write()


def only_session() -> _core.Session:
    if not SESSIONS:
        raise Error("no boosted model is left when the block ends; keep it, or name it: castor.profile(file, model)", "usage", "model")
    if len(SESSIONS) != 1:
        raise Error(f"{len(SESSIONS)} models are boosted; name one: castor.profile(file, model)", "usage", "model")
    return next(iter(SESSIONS))


def is_boosted(model: nn.Module) -> bool:
    return any(map(is_boosted_parameter, model.parameters()))


def session_of(model: nn.Module) -> _core.Session:
    if not isinstance(model, nn.Module):
        raise Error(f"a model is wanted, not {model!r}", "usage")
    place = next(filter(None, map(place_of, all_stored(model.parameters()))), None)
    if place is None:
        raise Error("the model was not boosted", "usage")
    return place[0]


def master(parameter: nn.Parameter) -> torch.Tensor:
    """A copy of the fp32 values that the optimizer updates, on the host."""
    session, name = boosted(parameter)
    return session.read_master(name)
