# SPDX-License-Identifier: Apache-2.0
"""What a training would take, before anything of it has memory."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map_only

from castor import _core
from castor._access import Lending, is_boosted
from castor._errors import Error, nearest
from castor._hooks import Passes, connect_units
from castor._precision import connect_precision, dtype_of
from castor._quantized import is_quantized
from castor._rules import max_norm_of, rule_of, values_of
from castor._timed_unit import TimedUnits, Updates, given_back, rates_of
from castor._units import as_lists, find_units
from castor._values import check_value, is_number

if TYPE_CHECKING:
    from castor.booster._plugin import Plugin

ADVICE = re.compile(r"raise `(\w+)` to ([\d.]+ \w+)(?: or more)?")
ASKS = (torch.Tensor.__bool__, torch.Tensor.item)
LOOKS = (torch.isnan, torch.isinf, torch.Tensor.isnan, torch.Tensor.isinf)
MACHINE = (
    "device_bytes",
    "host_bytes",
    "flops_per_s",
    "compute_slowdown",
    "host_update_bytes_per_s",
    "device_update_bytes_per_s",
    "h2d_bytes_per_s",
    "d2h_bytes_per_s",
    "nvme_read_bytes_per_s",
    "nvme_write_bytes_per_s",
)


@dataclass(frozen=True)
class Estimate:
    """Of a training once it has settled.

    peak_bytes: by tier, of the whole run. activation_bytes: of the device, beside chunks. step_s: of a step; compute_s and
    wait_s its parts, update_s all updates, beside it or in it. bound_by: what limits the step, which takes at least bound_s.
    flops: operations of a step. timed: the unit that was timed for them; None: step_s follows from stated speeds.
    machine: what was stated or timed, as the argument takes it: with it, the next estimate of this model times nothing.
    """

    n_params: int
    peak_bytes: dict[str, int]
    activation_bytes: int
    flops: float
    step_s: float
    compute_s: float
    wait_s: float
    update_s: float
    bound_by: str
    bound_s: float
    timed: str | None = None
    machine: Mapping[str, float] = field(default_factory=dict)

    def __str__(self) -> str:
        count = f"{self.n_params / 1e9:.3f} B" if self.n_params >= 1e7 else f"{self.n_params:,}"
        peaks = ", ".join(f"{tier} {_core.format_bytes(n_bytes)}" for tier, n_bytes in self.peak_bytes.items() if n_bytes)
        stated = "by the stated flops_per_s" if "flops_per_s" in self.machine else "±30 %: nothing was timed"
        how = f"±10 %: {self.timed} was timed" if self.timed else stated
        return (
            f"{count} parameters; peaks: {peaks}; {self.step_s:.3g} s a step ({how}), "
            f"bound by {self.bound_by} ({self.bound_s:.3g} s)"
        )


def estimate(
    model: nn.Module,
    plugin: Plugin,
    batch: Any,
    loss: Callable[[nn.Module, Any], torch.Tensor] | None = None,
    optimizer: type[torch.optim.Optimizer] = torch.optim.AdamW,
    machine: Mapping[str, float] | None = None,
    device: str = "cuda",
    timed: bool = False,
) -> Estimate:
    """The memory and the time of the training of `model` under `plugin`, of which nothing is allocated. As in training no update
    begins before step() where the plugin's micro_batches is None.

    model: best built on the meta device; it is not changed. batch: one micro-batch, whose values do not matter: keyword
    arguments of the model as a dictionary, its arguments as a tuple or list, or its one argument. loss: of a model and that
    batch; None: the model's result, or its `loss`. machine: rates and memory in place of an H200's: device_bytes,
    host_bytes, flops_per_s, compute_slowdown (the time of a GPU's operations beside updates on the host, over that alone),
    host_update_bytes_per_s, device_update_bytes_per_s, h2d_bytes_per_s, d2h_bytes_per_s, nvme_read_bytes_per_s,
    nvme_write_bytes_per_s. device: 'cuda', or 'cpu', where the device is the host. timed: one of the units that the model
    repeats is given memory on that device, and timed, on a GPU beside updates on the host too, as are the links to it and these
    updates (2 s); what machine states counts nevertheless. Drives are not timed, nor is the time of Python around units, which
    matters where one takes less than a millisecond.
    Errors: castor.Error: does_not_fit, with the budget that would do; usage.
    """
    from castor.booster._choices import check_plugin  # which needs this module's package

    check_plugin(plugin)
    if not isinstance(model, nn.Module):
        raise Error(f"a model is wanted, not {model!r}", "usage", "model")
    if not isinstance(machine or {}, Mapping):
        raise Error(f"machine takes rates by their names, as {{'flops_per_s': 4e14}}, not {machine!r}", "usage", "machine")
    for name in machine or {}:
        if name not in MACHINE:
            raise Error(f"machine has no {name}{nearest(name, MACHINE)}; it takes {', '.join(MACHINE)}", "usage", "machine")
        value = machine[name]
        takes = "1 or more" if name == "compute_slowdown" else "a number above 0"
        fits = is_number(value) and 0 < value < float("inf") and (value >= 1 or name != "compute_slowdown")
        check_value(name, value, takes, fits)
    if loss is not None and not callable(loss):
        raise Error(f"loss takes a function of the model and the batch, not {loss!r}", "usage", "loss")
    if device not in ("cuda", "cpu"):
        raise Error(f"device takes 'cuda' or 'cpu', not {device!r}", "usage", "device")
    if timed and device == "cuda" and not torch.cuda.is_available():
        raise Error("`timed` needs the GPU, and torch sees none; leave it out, and state the GPU's rates in machine=", "usage", "timed")
    if not isinstance(optimizer, type) or not issubclass(optimizer, torch.optim.Optimizer):
        what = optimizer.__name__ if isinstance(optimizer, type) else f"{type(optimizer).__name__}(…)"
        raise Error(f"optimizer takes a class of optimizers, as torch.optim.AdamW, not {what}", "usage", "optimizer")
    made = optimizer([nn.Parameter(torch.zeros(1))], lr=1e-3)
    rule = rule_of(made)
    on_meta = without_memory(model, plugin)
    connect_precision(on_meta, plugin)
    names = {parameter: name for name, parameter in on_meta.named_parameters()}
    units = find_units(on_meta, plugin.units)
    timing = TimedUnits(units) if timed else None  # before the recording, which counts copies on the meta device too
    recording = _core.Recording(*as_lists(names, units), plugin.name, plugin.options)
    passes = Passes(recording, units, Lending(), None)
    connect_units(passes)
    batch = tree_map_only(torch.Tensor, lambda tensor: tensor.detach().to("meta").requires_grad_(tensor.requires_grad), batch)
    try:
        with WholeBatches(), Operators(recording):
            flops = recording.end(loss_of(on_meta, batch, loss))
    except (RuntimeError, NotImplementedError) as error:
        if isinstance(error, Error) or "meta" not in str(error):
            raise
        why = f"the model asks for values of tensors, which are not there before it has memory: {str(error).splitlines()[0]}"
        raise Error(f"{why}; state loss=, a function that computes a loss without them", "usage", "loss") from error
    finally:
        passes.open.clear()
        passes.end_step()
        recording.close()
    of_step = rule, values_of(rule, made.param_groups[0]), max_norm_of(plugin, made), plugin.micro_batches or 0
    rates, unit = dict(machine or {}), None
    if timing:
        where, updates = torch.device(device), Updates(*_core.team_size(getattr(plugin, "update_threads", None) or 0, device == "cuda"))
        with given_back(where):
            unit, of_unit = timing.measure(recording.flops_of_units(), where, updates)
            rates = {**of_unit, **rates_of(where, updates), **rates}
    found = forecast(lambda budgets: recording.forecast(*of_step, device, rates, budgets))
    return Estimate(activation_bytes=found.pop("non_model_bytes"), flops=flops, timed=unit, machine=rates, **found)


def forecast(within: Callable[[dict[str, str]], dict[str, Any]]) -> dict[str, Any]:
    """within: of budgets in place of the plugin's. Where those do not do, the refusal names the ones that would: each says what
    its own shortage needs, and the next one may be found only then."""
    refused: Error | None = None
    budgets: dict[str, str] = {}
    would_do: dict[str, str] = {}
    while True:
        try:
            found = within(budgets)
            break
        except Error as error:
            advice = ADVICE.search(str(error))
            if not advice or int(budgets.get(advice[1], 0)) >= (error.needed or 0):
                raise refused or error from None
            refused = refused or error
            budgets[advice[1]], would_do[advice[1]] = str(error.needed), advice[2]
    if refused is None:
        return found
    sizes = " and ".join(f"`{budget}` to {size}" for budget, size in would_do.items())
    text = ADVICE.sub(f"raise {sizes}", str(refused), count=1)
    option = ADVICE.search(str(refused))[1]
    raise Error(text, refused.kind, refused.option, refused.tier, int(budgets[option]), refused.available)


def without_memory(model: nn.Module, plugin: Plugin) -> nn.Module:
    """A copy on the meta device, in the precision of the plugin."""
    if is_boosted(model):
        raise Error("the model was boosted already; estimate one that was not, built within torch.device('meta')", "usage")
    for name, parameter in model.named_parameters():
        if is_quantized(parameter):
            raise Error(f"{name} is quantized, and its kernels do not run without memory; estimate the model before it is", "usage")
    dtype = dtype_of(plugin.precision) if plugin.precision else None
    memo: dict[int, torch.Tensor] = {}
    for parameter in model.parameters():
        memo[id(parameter)] = nn.Parameter(like_on_meta(parameter, dtype), parameter.requires_grad)
    for module in model.modules():
        for name, buffer in module.named_buffers(recurse=False):
            casts = dtype is not None and buffer.is_floating_point() and name not in module._non_persistent_buffers_set
            memo[id(buffer)] = like_on_meta(buffer, dtype if casts else None)
    return copy.deepcopy(model, memo)


def like_on_meta(tensor: torch.Tensor, dtype: torch.dtype | None) -> torch.Tensor:
    """A plain tensor, also of one that was built lazily. dtype: of one in floating point; None: its own."""
    dtype = (dtype if tensor.is_floating_point() else None) or tensor.dtype
    return torch.empty_strided(tensor.shape, tensor.stride(), dtype=dtype, device="meta")


class Operators(TorchDispatchMode):
    """Tells a recording of each operator's kernel: many of the meta device are programs in Python, whose inner tensors a GPU's
    kernel does not have."""

    def __init__(self, recording: _core.Recording):
        super().__init__()
        self.recording = recording

    def __torch_dispatch__(self, func: Callable, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        self.recording.begin_operator()
        try:
            return func(*args, **(kwargs or {}))
        finally:
            self.recording.end_operator()


class WholeBatches(TorchFunctionMode):
    """Answers questions about values that are not there as of a batch without padding: all of a mask is set, no token is the one
    that pads, and no number is nan or inf."""

    def __torch_function__(self, func: Callable, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        if func in ASKS and args[0].is_meta and args[0].dtype == torch.bool:
            return not hasattr(args[0], "castor_amiss")
        if func in LOOKS or (func in (torch.any, torch.Tensor.any) and hasattr(args[0], "castor_amiss")):
            found = func(*args, **(kwargs or {}))
            found.castor_amiss = True
            return found
        if func is torch.Tensor.__contains__ and args[0].is_meta:
            return False
        return func(*args, **(kwargs or {}))


def loss_of(model: nn.Module, batch: Any, loss: Callable[[nn.Module, Any], torch.Tensor] | None) -> torch.Tensor:
    if loss is not None:
        found = loss(model, batch)
    elif isinstance(batch, Mapping):
        found = model(**batch)
    else:
        found = model(*batch) if isinstance(batch, (tuple, list)) else model(batch)
    if not isinstance(found, torch.Tensor):
        found = found.get("loss") if isinstance(found, Mapping) else getattr(found, "loss", None)
    if not isinstance(found, torch.Tensor) or found.numel() != 1:
        raise Error("the model gives no loss for this batch; state loss=: a function of the model and the batch", "usage", "loss")
    return found
