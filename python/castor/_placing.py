# SPDX-License-Identifier: Apache-2.0
"""Parameters of the dtype and on the device that a model trains in, and the values that they begin with."""

from __future__ import annotations

import torch
from torch import nn

from castor import _core
from castor._quantized import Beside, dtypes_of_biases
from castor._stored import is_wrapper, rebuilt, stored


class Placeholders:
    """The parameters of a model, the same objects, in another dtype (None: their own), on another device, or no longer in a
    storage with others, as those of nn.LSTM on a GPU: without memory until a session gives them some. Floating-point buffers
    are cast too, but for those that are not saved and those of modules whose parameters are not cast; all go to the device.

    first_values: by parameter, what it was before; on the meta device where it has no values yet.
    """

    def __init__(self, model: nn.Module, dtype: torch.dtype | None, device: torch.device):
        self.first_values: dict[torch.Tensor, torch.Tensor] = {}
        self.wrapped: list[tuple[nn.Parameter, nn.Parameter]] = []  # and what it was before
        self.buffers: list[tuple[nn.Module, str, torch.Tensor]] = []
        self.beside = Beside()
        try:
            cast = self.place(model, dtype, device)
            self.place_buffers(model, dtype, device, cast)
            self.beside.move(model, device)
        except BaseException:
            self.undo()
            raise

    def place(self, model: nn.Module, dtype: torch.dtype | None, device: torch.device) -> set[nn.Parameter]:
        """Returns those of another dtype than before."""
        cast = set()
        of_layers = dtypes_of_biases(model)
        for parameter in model.parameters():
            if is_wrapper(parameter):
                self.place_within(parameter, device)
                continue
            wanted = of_layers.get(parameter, dtype) if parameter.is_floating_point() else None
            if wanted not in (None, parameter.dtype):
                cast.add(parameter)
            if parameter in cast or parameter.device != device or lies_in_a_part(parameter):
                self.take_memory(parameter, wanted or parameter.dtype, device)
        return cast

    def take_memory(self, tensor: torch.Tensor, dtype: torch.dtype, device: torch.device) -> None:
        values = tensor.data
        give(tensor, _core.unplaced_like(values, dtype, device))
        self.first_values[tensor] = values

    def place_buffers(self, model: nn.Module, dtype: torch.dtype | None, device: torch.device, cast: set[nn.Parameter]) -> None:
        for module in model.modules():
            own = [parameter for parameter in module._parameters.values() if parameter is not None]
            is_cast = any(parameter in cast for parameter in own) if own else bool(cast)
            for name, buffer in module._buffers.items():
                if buffer is not None and not buffer.is_meta:
                    saved = name not in module._non_persistent_buffers_set
                    self.buffers.append((module, name, buffer))
                    module._buffers[name] = buffer.to(device, dtype if is_cast and saved and buffer.is_floating_point() else None)

    def place_within(self, parameter: nn.Parameter, device: torch.device) -> None:
        """Of a class that wraps tensors, which stay as they are: elsewhere the parameter is another one of that class."""
        before = stored(parameter).values()
        if parameter.device == device:
            for tensor in filter(lies_in_a_part, before):
                self.take_memory(tensor, tensor.dtype, device)
            return
        made = rebuilt(parameter, lambda tensor: _core.unplaced_like(tensor, tensor.dtype, device))
        moved = nn.Parameter(made, parameter.requires_grad)
        torch.utils.swap_tensors(parameter, moved)
        self.wrapped.append((parameter, moved))
        self.first_values.update(zip(stored(parameter).values(), before))

    def waiting(self) -> set[nn.Parameter]:
        """Those that have no values yet."""
        return {parameter for parameter, values in self.first_values.items() if values.is_meta}

    def undo(self) -> None:
        for parameter, values in self.first_values.items():
            give(parameter, values)
        self.beside.undo()
        for parameter, before in self.wrapped:
            torch.utils.swap_tensors(parameter, before)
        for module, name, buffer in self.buffers:
            module._buffers[name] = buffer


def lies_in_a_part(tensor: torch.Tensor) -> bool:
    """Whether its storage has other bytes too."""
    if tensor.is_meta or tensor.layout != torch.strided:
        return False
    return tensor.untyped_storage().nbytes() != tensor.nbytes


def give(parameter: torch.Tensor, tensor: torch.Tensor) -> None:
    """parameter.data = tensor, which torch refuses between the meta device and others."""
    if parameter.is_meta == tensor.is_meta:
        parameter.data = tensor
        return
    other = nn.Parameter(tensor, parameter.requires_grad)
    torch._C._swap_tensor_impl(parameter, other)  # swap_tensors refuses what has weak references, as nn.LSTM's parameters
    for name in ("_backward_hooks", "_post_accumulate_grad_hooks"):
        if hooks := getattr(parameter, name):
            setattr(parameter, name, hooks)  # connects them to the new memory


def training_device(wanted: str | torch.device | None, model: nn.Module) -> torch.device:
    """The device `wanted`; None: the current GPU if there is one, else that of the model."""
    device = torch.device(wanted) if wanted is not None else None
    if device is None:
        if torch.cuda.is_available():
            device = torch.device("cuda")
        else:
            device = next((parameter.device for parameter in model.parameters() if not parameter.is_meta), torch.device("cpu"))
    if device.type == "cuda" and device.index is None:
        device = torch.device("cuda", torch.cuda.current_device())
    return device


def prepare_allocator(device: torch.device) -> None:
    """Before the session limits torch's allocator to what the budget leaves beside chunks."""
    if device.type == "cuda":
        _core.configure_allocator()
        torch.cuda.empty_cache()
