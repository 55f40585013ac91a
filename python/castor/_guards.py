# SPDX-License-Identifier: Apache-2.0
"""What may not be done to a model that was boosted, found before it does harm."""

from __future__ import annotations

import weakref
from collections.abc import Callable

import torch
from torch import nn

from castor._access import place_of
from castor._errors import Error
from castor._quantized import check_is_quantized
from castor._ranks import world_size_of
from castor._stored import all_stored, is_wrapper


def check_kinds(model: object, optimizer: object) -> None:
    """optimizer: None where there is none."""
    if not isinstance(model, nn.Module) or not isinstance(optimizer, (torch.optim.Optimizer, type(None))):
        kinds = f"{type(model).__name__} and {type(optimizer).__name__}"
        raise Error(f"boost takes a torch.nn.Module and, after it, a torch.optim.Optimizer, not {kinds}", "usage")


def check_one_rank() -> None:
    if world_size_of() > 1:
        raise Error(f"there are {world_size_of()} ranks, and Castor trains on one so far; start the script on one", "usage")


def check_free(names: dict[nn.Parameter, str]) -> None:
    for parameter, name in names.items():
        if place_of(parameter):
            raise Error(
                f"parameter {name} belongs to a model that was boosted already; make another model, or drop that one "
                "with its optimizer",
                "usage",
            )


def check_parameters(names: dict[nn.Parameter, str]) -> None:
    devices = {parameter.device: name for parameter, name in reversed(names.items())}
    if len(devices) > 1:
        places = ", ".join(f"{name} on {device}" for device, name in devices.items())
        raise Error(f"the parameters are on several devices ({places}); move the model to one before it is boosted", "usage")
    for parameter, name in names.items():
        if parameter.requires_grad and parameter.is_complex():
            raise Error(f"parameter {name} is complex; Castor trains real ones", "usage")
    for parameter, name in names.items():
        if parameter.grad is not None:
            raise Error(f"parameter {name} has a gradient from before boost(); call optimizer.zero_grad() first", "usage")
    check_no_shared_elements(names)


def check_modules(model: nn.Module) -> None:
    for name, parameter in model.named_parameters():
        check_is_quantized(name, parameter)
        if parameter.requires_grad and is_wrapper(parameter):
            kind = type(parameter).__name__
            raise Error(f"parameter {name} is of class {kind} and requires a gradient; freeze it, requires_grad_(False)", "usage")
        if isinstance(parameter, nn.parameter.UninitializedParameter):
            raise Error(f"parameter {name} gets its sizes from a first batch; run one through the model before it is boosted", "usage")
    for name, module in model.named_modules():
        if isinstance(module, (nn.Embedding, nn.EmbeddingBag)) and module.max_norm is not None:
            raise Error(
                f"module {name or 'itself'} has max_norm={module.max_norm}, with which it writes its weight in its forward pass, "
                "past the optimizer's fp32 copy; make it without, and scale the rows between steps within "
                "castor.gathered(parameter, write=True)",
                "usage",
            )
        if isinstance(module, torch.jit.ScriptModule):
            raise Error(f"module {name or 'itself'} was made by torch.jit, and takes no hooks; use torch.compile in its place", "usage")
        if isinstance(module, nn.parallel.DistributedDataParallel):
            raise Error("the model is wrapped in DistributedDataParallel; boost the model in it, model.module", "usage")


def check_no_shared_elements(names: dict[nn.Parameter, str]) -> None:
    """Parameters may lie side by side in one storage, as those of nn.LSTM do on a GPU."""
    for in_storage in by_storage(names).values():
        in_storage.sort()
        for (_, end, one), (begin, _, other) in zip(in_storage, in_storage[1:]):
            if begin < end:
                raise Error(
                    f"parameters {one} and {other} share memory; where they are to be one, use one nn.Parameter in both places, "
                    "else give each its own: parameter.data = parameter.data.clone()",
                    "usage",
                )


def check_buffers(model: nn.Module, names: dict[nn.Parameter, str]) -> None:
    parameters = by_storage(names)
    for name, buffer in model.named_buffers():
        if not lies_in_memory(buffer):
            continue
        begin, end = span_of(buffer)
        for first, last, owner in parameters.get(storage_of(buffer), ()):
            if begin < last and first < end:
                raise Error(
                    f"buffer {name} shares memory with parameter {owner}, which is not always there; give it its own: buffer.clone()",
                    "usage",
                )


def by_storage(names: dict[nn.Parameter, str]) -> dict[int, list[tuple[int, int, str]]]:
    """The bytes of each parameter in its storage, from the first to before the last. Those with gaps are left out: the core
    refuses them."""
    places: dict[int, list[tuple[int, int, str]]] = {}
    for parameter, name in names.items():
        if not lies_in_memory(parameter):
            continue
        begin, end = span_of(parameter)
        if end - begin == parameter.nbytes:
            places.setdefault(storage_of(parameter), []).append((begin, end, name))
    return places


def span_of(tensor: torch.Tensor) -> tuple[int, int]:
    """The first byte of its storage that it has, and the first after it. Requires: lies_in_memory."""
    begin = tensor.storage_offset() * tensor.itemsize
    if tensor.is_contiguous():
        return begin, begin + tensor.nbytes
    n_between = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride()))
    return begin, begin + (n_between + 1) * tensor.itemsize


def storage_of(tensor: torch.Tensor) -> int:
    """Tells storages apart."""
    return tensor.untyped_storage()._cdata


def lies_in_memory(tensor: torch.Tensor) -> bool:
    return not tensor.is_meta and tensor.layout == torch.strided and tensor.numel() > 0


def check_all_have_values(waiting: set[str]) -> None:
    """waiting: the parameters and buffers that have none."""
    if waiting:
        raise Error(
            f"{len(waiting)} parameters or buffers were built on the meta device and have no values yet, {min(waiting)} among "
            "them; load weights (booster.load_model, model.load_state_dict)",
            "usage",
        )


def knows_all(names: dict[nn.Parameter, str]) -> Callable[[nn.Module], bool]:
    """Whether `names` has all parameters of a module. Asked in every step: faster than named_parameters."""
    known = {id(parameter) for parameter in names}

    def has_all(module: nn.Module) -> bool:
        left = [module]
        for module in left:
            for parameter in module._parameters.values():
                if parameter is not None and id(parameter) not in known:
                    return False
            left.extend(child for child in module._modules.values() if child is not None)
        return True

    return has_all


def refuse_new_parameters(model: nn.Module, names: dict[nn.Parameter, str]) -> None:
    """Raises where the model has a parameter that `names` has not."""
    for name, parameter in model.named_parameters():
        if parameter not in names and name in names.values():
            raise Error(
                f"the model has another tensor in place of its parameter {name}, by an assignment or "
                "torch.func.functional_call, which Castor does not train; boost the model after such a change",
                "usage",
            )
        if parameter not in names:
            raise Error(
                f"the model has a new parameter {name}, which Castor does not train; add parameters before the model is "
                "boosted",
                "usage",
            )


def refuse_moves(model: nn.Module) -> None:
    """model.to(), .cuda(), .half() and the like: those that change nothing go on to work."""
    it = weakref.ref(model)

    @torch.no_grad()
    def apply_unchanged(fn: Callable[[torch.Tensor], torch.Tensor], recurse: bool = True) -> nn.Module:
        for parameter in all_stored(it().parameters()):
            try:
                stays = fn(parameter) is parameter
            except RuntimeError:  # it was read, and has no memory
                stays = False
            if not stays:
                raise Error(
                    "a boosted model cannot be moved to another device or dtype (to(), cuda(), half()), nor to memory that "
                    "processes share (share_memory()); do it before boost(), or state precision=",
                    "usage",
                )
        return type(it())._apply(it(), fn, recurse)

    model._apply = apply_unchanged
    for parameter in all_stored(model.parameters()):
        parameter.share_memory_ = refuse_sharing
        parameter.is_shared = not_shared


def not_shared() -> bool:
    """torch ends the process where it asks a tensor without memory, here and below."""
    return False


def refuse_sharing() -> None:
    raise Error("the memory of a boosted model cannot be shared with other processes; give them model.state_dict()", "usage")
