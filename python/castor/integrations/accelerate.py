# SPDX-License-Identifier: Apache-2.0
"""accelerate's loop, with a model and an optimizer that a Booster has boosted."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator
from accelerate.optimizer import AcceleratedOptimizer
from torch import nn

from castor._access import is_boosted
from castor._boosted import BoostedOptimizer
from castor._errors import Error
from castor._precision import precision_of
from castor.booster import Booster
from castor.booster._choices import plugin_of_loop
from castor.booster._plugin import Plugin
from castor.integrations import RUN

__all__ = ["CastorAccelerator"]


class OptimizerOfLoop(AcceleratedOptimizer):
    """accelerate's wrapper around a boosted optimizer, and what that has besides: skipped, get_grad_norm, loss_scale, backward."""

    @property
    def step_was_skipped(self) -> bool:
        return self.optimizer.skipped

    def __getattr__(self, name: str) -> Any:
        if name == "optimizer":  # not yet there
            raise AttributeError(name)
        return getattr(self.optimizer, name)


class CastorAccelerator(Accelerator):
    """An Accelerator whose prepare() boosts each model with the optimizer that has its parameters; both go into one call.

    plugin: of castor.booster.plugin; None: GeminiPlugin. Its precision is that of mixed_precision, or of `accelerate launch`,
    where one is stated there and the plugin has none or its usual one, bf16; without a plugin and both, the model's own. No
    autocast is put around the model. The rest are Accelerator's.
    """

    castor_booster: Booster

    def __init__(self, *args: Any, plugin: Plugin | None = None, mixed_precision: str | None = None, **kwargs: Any):
        super().__init__(*args, mixed_precision="no", **kwargs)
        stated = mixed_precision or os.environ.get("ACCELERATE_MIXED_PRECISION")
        precision = None if stated in (None, "no") else precision_of(stated, "mixed_precision")
        self.castor_booster = Booster(self.device, plugin=plugin_of_loop(plugin, precision))

    def prepare(self, *args: Any, device_placement: list[bool] | None = None) -> Any:
        """As Accelerator's. The results for models and optimizers are those given, or wrappers of accelerate around them."""
        optimizers = [inner(each) for each in args if isinstance(each, torch.optim.Optimizer)]
        for model in args:
            if isinstance(model, nn.Module) and not is_boosted(model):
                self.castor_boost(model, optimizers)
            elif isinstance(model, nn.Module):
                check_its_optimizer(model, optimizers)
        placed = list(device_placement or [self.device_placement] * len(args))
        for i, each in enumerate(args):
            placed[i] = placed[i] and not isinstance(each, (nn.Module, torch.optim.Optimizer))
        return super().prepare(*args, device_placement=placed)

    def prepare_model(self, model: nn.Module, device_placement: bool | None = None, evaluation_mode: bool = False) -> nn.Module:
        if not is_boosted(model) and not evaluation_mode:
            self.castor_boost(model, [])
        return super().prepare_model(model, device_placement, evaluation_mode)

    def prepare_optimizer(self, optimizer: torch.optim.Optimizer, device_placement: bool | None = None) -> AcceleratedOptimizer:
        if not isinstance(inner(optimizer), BoostedOptimizer):
            raise Error("the optimizer has parameters of no boosted model; boost both at once by prepare(model, optimizer, …)", "usage")
        prepared = super().prepare_optimizer(optimizer, device_placement)
        prepared.__class__ = OptimizerOfLoop
        return prepared

    def castor_boost(self, model: nn.Module, optimizers: list[torch.optim.Optimizer]) -> None:
        of_model = optimizers_of(model, optimizers)
        if len(of_model) > 1:
            raise Error(f"{len(of_model)} optimizers have parameters of one model; Castor trains it with one, of several groups", "usage")
        if not of_model and any(parameter.requires_grad for parameter in model.parameters()):
            raise Error(
                "prepare() takes a model together with its optimizer: prepare(model, optimizer, …); a model that is not trained "
                "is frozen before, with model.requires_grad_(False)",
                "usage",
            )
        self.castor_booster.boost(model, *of_model)

    def castor_optimizers(self) -> list[BoostedOptimizer]:
        return [optimizer for optimizer in map(inner, self._optimizers) if isinstance(optimizer, BoostedOptimizer)]

    def backward(self, loss: torch.Tensor, **kwargs: Any) -> None:
        """Under precision='fp16' the loss is scaled for the one boosted optimizer there is."""
        boosted = self.castor_optimizers()
        if len(boosted) != 1:
            super().backward(loss, **kwargs)
        else:
            boosted[0].backward(loss / self.gradient_accumulation_steps, **kwargs)

    @contextlib.contextmanager
    def no_sync(self, model: nn.Module) -> Iterator[None]:
        with model.no_sync() if is_boosted(model) else super().no_sync(model):
            yield

    def clip_grad_norm_(self, parameters: Iterable[nn.Parameter], max_norm: float, norm_type: float = 2) -> torch.Tensor:
        """Where the parameters are a boosted model's, all of its trained ones: the norm is over all, as the core has it."""
        parameters = [parameters] if isinstance(parameters, torch.Tensor) else list(parameters)
        given = {id(parameter) for parameter in parameters if parameter.requires_grad}
        for optimizer in self.castor_optimizers():
            trained = {id(parameter) for parameter in parameters_of(optimizer) if parameter.requires_grad}
            if not trained.intersection(given):
                continue
            if not trained <= given or given - set(map(id, parameters_of(optimizer))):
                raise Error("a boosted model is clipped as a whole and by itself: clip_grad_norm_(model.parameters(), …)", "usage")
            if norm_type != 2:
                raise Error(f"norm_type is {norm_type}; Castor clips by the 2-norm", "usage", "norm_type")
            return optimizer.clip_grad_norm_(max_norm)
        return super().clip_grad_norm_(parameters, max_norm, norm_type)

    def clip_grad_value_(self, parameters: Iterable[nn.Parameter], clip_value: float) -> None:
        parameters = {id(parameter) for parameter in ([parameters] if isinstance(parameters, torch.Tensor) else parameters)}
        if any(parameters.intersection(map(id, parameters_of(optimizer))) for optimizer in self.castor_optimizers()):
            raise Error("Castor clips by the norm of all gradients: clip_grad_norm_(model.parameters(), …)", "usage")
        super().clip_grad_value_(parameters, clip_value)

    def save_state(self, *args: Any, **kwargs: Any) -> str:
        """As Accelerator's, but for what a boosted optimizer keeps: that goes to the drive by Booster.save_optimizer, into
        folders within, and not through memory."""
        with self.castor_apart(self.register_save_state_pre_hook, lambda folder: True):
            folder = super().save_state(*args, **kwargs)
        for number, optimizer in enumerate(self.castor_optimizers()):
            self.castor_booster.save_optimizer(optimizer, castor_folder(folder, number))
        return folder

    def load_state(self, *args: Any, **kwargs: Any) -> None:
        """Between two steps. Also what an Accelerator has saved without Castor."""
        with self.castor_apart(self.register_load_state_pre_hook, lambda folder: castor_folder(folder, 0).is_dir()) as folders:
            super().load_state(*args, **kwargs)
        for number, optimizer in enumerate(self.castor_optimizers() if folders else ()):
            self.castor_booster.load_optimizer(optimizer, castor_folder(folders[0], number))

    @contextlib.contextmanager
    def castor_apart(self, register: Callable, may_be: Callable[[str], bool]) -> Iterator[list[str]]:
        """Accelerate neither saves nor loads boosted optimizers meanwhile, if the folder may be one of Castor; that folder is
        in the list then."""
        everyone, folders = list(self._optimizers), []

        def set_apart(*of_hook: Any) -> None:
            if may_be(of_hook[-1]):
                folders.append(of_hook[-1])
                self._optimizers[:] = [each for each in everyone if not isinstance(inner(each), BoostedOptimizer)]

        handle = register(set_apart)
        try:
            yield folders
        finally:
            handle.remove()
            self._optimizers[:] = everyone


def boosting(accelerator: Accelerator, booster: Booster) -> CastorAccelerator:
    """Makes an accelerator, which was made without mixed precision, one that boosts."""
    accelerator.__class__ = CastorAccelerator
    accelerator.castor_booster = booster
    return accelerator


def check_its_optimizer(model: nn.Module, optimizers: Iterable[torch.optim.Optimizer]) -> None:
    """Of a boosted model: none of the others trains it."""
    if not all(isinstance(optimizer, BoostedOptimizer) for optimizer in optimizers_of(model, optimizers)):
        raise Error(
            "the model was boosted with another optimizer, which goes on: prepare the model with that one, whose param_groups "
            "take new rates, or train a copy of the model, copy.deepcopy(model), with a new one",
            "usage",
        )


def optimizers_of(model: nn.Module, optimizers: Iterable[torch.optim.Optimizer]) -> list[torch.optim.Optimizer]:
    """Those that have parameters of the model."""
    own = set(map(id, model.parameters()))
    return [optimizer for optimizer in optimizers if own.intersection(map(id, parameters_of(optimizer)))]


def castor_folder(folder: str, number: int) -> Path:
    return Path(folder) / (f"{RUN}_{number}" if number else RUN)


def inner(optimizer: torch.optim.Optimizer) -> torch.optim.Optimizer:
    """Without accelerate's wrapper."""
    return getattr(optimizer, "optimizer", optimizer)


def parameters_of(optimizer: torch.optim.Optimizer) -> list[nn.Parameter]:
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]
