# SPDX-License-Identifier: Apache-2.0
"""Lightning's Trainer with a LightningModule that Castor has boosted: Trainer(strategy=CastorStrategy(plugin=…)), or
strategy="castor" once this module is imported."""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import torch
from lightning.pytorch.plugins import Precision
from lightning.pytorch.strategies import SingleDeviceStrategy, StrategyRegistry
from lightning.pytorch.trainer.states import TrainerFn, TrainerStatus
from lightning.pytorch.utilities.model_helpers import is_overridden
from lightning_utilities.core.apply_func import apply_to_collection

from castor._boosted import BoostedOptimizer, forget_state
from castor._errors import Error
from castor._precision import dtype_of
from castor.booster import Booster
from castor.booster._choices import plugin_of_loop
from castor.booster._files import replacing_folder, sync, was_of
from castor.booster._plugin import Plugin
from castor.integrations import RUN, drop_open_step

__all__ = ["CastorStrategy"]

PRECISIONS = {"32-true": None, "bf16-true": "bf16", "bf16-mixed": "bf16", "16-true": "fp16", "16-mixed": "fp16"}
AVERAGING = tuple(getattr(pl.callbacks, name, ()) for name in ("StochasticWeightAveraging", "WeightAveraging"))  # the last: newer
REST = "lightning.ckpt"  # in the folder of a checkpoint


@dataclass
class Boosted:
    """What a LightningModule keeps that was boosted, also for other Trainers; copies of it are without."""

    booster: Booster
    optimizers: list[torch.optim.Optimizer]  # one, or none where it was boosted to be evaluated
    schedulers: list

    @staticmethod
    def of(module: pl.LightningModule) -> Boosted | None:
        return vars(module).get("castor_boosted")

    def __deepcopy__(self, memo: dict) -> None:
        return None

    def __reduce__(self) -> tuple:
        return type(None), ()


class CastorPrecision(Precision):
    """Scales losses and clips as the core does. The plugin, once there is one, casts the model."""

    def __init__(self, precision: str):
        self.precision = precision
        self.plugin: Plugin | None = None

    def convert_input(self, data: Any) -> Any:
        """Floating-point inputs to the dtype of the weights: a step of the module need not call its forward, which casts."""
        if self.plugin is None or self.plugin.precision not in ("bf16", "fp16") or not self.plugin.cast_inputs:
            return data
        dtype = dtype_of(self.plugin.precision)
        return apply_to_collection(data, torch.Tensor, lambda tensor: tensor.to(dtype) if tensor.is_floating_point() else tensor)

    def pre_backward(self, tensor: torch.Tensor, module: pl.LightningModule) -> torch.Tensor:
        tensor = super().pre_backward(tensor, module)
        boosted = [inner(optimizer) for optimizer in module.trainer.strategy.optimizers]
        scale = boosted[0].castor_session.scale_next_loss() if boosted else 1
        return tensor if scale == 1 else tensor * scale

    def clip_grad_by_norm(self, optimizer: torch.optim.Optimizer, clip_val: float) -> None:
        if clip_val != self.plugin.max_norm:
            inner(optimizer).clip_grad_norm_(clip_val)

    def clip_grad_by_value(self, optimizer: torch.optim.Optimizer, clip_val: float) -> None:
        raise Error("gradients are clipped by their norm; leave gradient_clip_algorithm at 'norm'", "usage")


class CastorStrategy(SingleDeviceStrategy):
    """Trains on one device under a plugin of castor.booster.plugin; None: GeminiPlugin.

    Where the plugin has no precision or its usual one, bf16, the Trainer's counts, unless that is 32-true, its own usual one;
    where it states no max_norm, gradient_clip_val does. Without a plugin 32-true leaves the module's own precision.
    A checkpoint is a folder, replaced as a whole: weights as Hugging Face reads them, which Booster.load_model gives to a
    module, what Booster.save_optimizer keeps, and lightning.ckpt with the rest. test and predict before fit freeze the module.
    """

    strategy_name = "castor"
    parallel_devices: list[torch.device] | None = None  # the Trainer's devices; it sets them

    def __init__(self, plugin: Plugin | None = None, **options: Any):
        super().__init__(**options)
        self.castor_plugin = plugin
        self.castor_booster: Booster | None = None
        self.castor_folder: Path | None = None  # of the checkpoint that is loaded

    @property
    def root_device(self) -> torch.device:
        devices = self.parallel_devices or [self._root_device]
        if len(devices) > 1:
            raise Error(f"the Trainer has {len(devices)} devices, and Castor trains on one so far; state devices=1", "usage")
        return devices[0]

    @property
    def precision_plugin(self) -> CastorPrecision:
        self._precision_plugin = self._precision_plugin or CastorPrecision("32-true")
        return self._precision_plugin

    @precision_plugin.setter
    def precision_plugin(self, given: Precision | None) -> None:
        if given is None or isinstance(given, CastorPrecision):
            self._precision_plugin = given
        elif given.precision not in PRECISIONS:
            raise Error(f"precision takes one of {', '.join(PRECISIONS)} under Castor, not {given.precision}", "usage", "precision")
        else:
            self._precision_plugin = CastorPrecision(given.precision)

    def setup(self, trainer: pl.Trainer) -> None:
        for callback in trainer.callbacks:
            if isinstance(callback, AVERAGING):
                why = f"{type(callback).__name__} reads and writes weights between steps, when Castor has them elsewhere"
                raise Error(f"{why}; leave it out, and average the weights of checkpoints", "usage")
        self.accelerator.setup(trainer)
        module = self.lightning_module
        boosted = Boosted.of(module)
        if boosted is None:
            boosted = vars(module)["castor_boosted"] = self.castor_boost(trainer, module)
        elif trainer.state.fn == TrainerFn.FITTING:
            self.castor_begin_anew(trainer, module, boosted)
        self.castor_booster, self.precision_plugin.plugin = boosted.booster, boosted.booster.plugin
        self.optimizers, self.lr_scheduler_configs = boosted.optimizers, boosted.schedulers
        self.setup_precision_plugin()

    def castor_plugin_for(self, trainer: pl.Trainer, module: pl.LightningModule) -> Plugin:
        precision = PRECISIONS[self.precision_plugin.precision]
        if not module.automatic_optimization or is_overridden("configure_gradient_clipping", module):
            return plugin_of_loop(self.castor_plugin, precision)
        return plugin_of_loop(self.castor_plugin, precision, trainer.gradient_clip_val, micro_batches=1)  # and others within no_sync

    def castor_begin_anew(self, trainer: pl.Trainer, module: pl.LightningModule, boosted: Boosted) -> None:
        """A further fit: the optimizer gets the values of the one that the module makes now, and no moments; the schedulers are
        the new ones."""
        if not boosted.optimizers:
            why = "the module was boosted for test, predict, or a validate before which it had no optimizer, and is frozen"
            raise Error(f"{why}; fit another one, or call fit before them", "usage")
        plugin, before = self.castor_plugin_for(trainer, module), boosted.booster.plugin
        stated = [field.name for field in fields(before)] if self.castor_plugin else ("precision", "max_norm", "micro_batches")
        names = [name for name in stated if getattr(plugin, name, None) != getattr(before, name)]
        if names or type(plugin) is not type(before):
            other = f"another {names[0]}" if names else f"another plugin, {type(before).__name__}"
            raise Error(f"the module was boosted with {other}; fit another module with this one", "usage")
        self.setup_optimizers(trainer)
        optimizer = inner(boosted.optimizers[0])
        made = [inner(each) for each in self.optimizers]
        if len(made) != 1 or len(made[0].param_groups) != len(optimizer.param_groups) or not isinstance(optimizer, type(made[0])):
            raise Error("configure_optimizers gives another kind of optimizer, or other groups, than in the first fit", "usage")
        for group, values in zip(optimizer.param_groups, made[0].param_groups):
            group.update({name: value for name, value in values.items() if name != "params"})
        drop_open_step(optimizer)
        for parameter in optimizer.castor_names:
            forget_state(optimizer, parameter)
        for config in self.lr_scheduler_configs:
            for scheduler in (config.scheduler, *getattr(config.scheduler, "_schedulers", ())):
                scheduler.optimizer = optimizer
        boosted.schedulers = self.lr_scheduler_configs

    def castor_boost(self, trainer: pl.Trainer, module: pl.LightningModule) -> Boosted:
        booster = Booster(self.root_device, plugin=self.castor_plugin_for(trainer, module))
        if trainer.state.fn == TrainerFn.FITTING:
            return self.castor_boost_to_learn(trainer, module, booster)
        if trainer.state.fn == TrainerFn.VALIDATING and is_overridden("configure_optimizers", module):
            try:  # a fit may come
                return self.castor_boost_to_learn(trainer, module, booster)
            except Exception as error:
                logging.getLogger("castor").info("the module is frozen, because it was validated first, and cannot learn: %s", error)
        booster.boost(module)
        return Boosted(booster, [], [])

    def castor_boost_to_learn(self, trainer: pl.Trainer, module: pl.LightningModule, booster: Booster) -> Boosted:
        self.setup_optimizers(trainer)
        if len(self.optimizers) != 1:
            raise Error(
                f"configure_optimizers gives {len(self.optimizers)} optimizers; Castor trains a model with one, of several groups", "usage"
            )
        booster.boost(module, self.optimizers[0])
        return Boosted(booster, self.optimizers, self.lr_scheduler_configs)

    def model_to_device(self) -> None:
        """Castor does."""

    def backward(self, closure_loss: torch.Tensor, optimizer: torch.optim.Optimizer | None, *args: Any, **kwargs: Any) -> torch.Tensor:
        module = self.lightning_module
        accumulates = module.automatic_optimization and module.trainer.fit_loop._should_accumulate()
        with module.no_sync() if accumulates else contextlib.nullcontext():
            return super().backward(closure_loss, optimizer, *args, **kwargs)

    @contextlib.contextmanager
    def tensor_init_context(self, empty_init: bool | None = None) -> Iterator[None]:
        """Not on the device, which may not hold the model."""
        yield

    @property
    def restore_checkpoint_after_setup(self) -> bool:
        return True

    def lightning_module_state_dict(self) -> dict[str, Any]:
        """See save_checkpoint."""
        return {}

    def optimizer_state(self, optimizer: torch.optim.Optimizer) -> dict[str, Any]:
        """See save_checkpoint."""
        return {}

    def save_checkpoint(self, checkpoint: dict[str, Any], filepath: str | os.PathLike, storage_options: Any = None) -> None:
        if "://" in os.fspath(filepath):
            raise Error(f"a checkpoint is a folder of this machine, and {filepath} is none", "usage")
        if self.optimizers and self.lightning_module.trainer.state.status == TrainerStatus.INTERRUPTED:
            drop_open_step(inner(self.optimizers[0]))
        with replacing_folder(Path(filepath), having=REST) as folder:
            self.castor_booster.save_model(self.lightning_module, folder, shard=True)
            if "optimizer_states" in checkpoint and self.optimizers:
                self.castor_booster.save_optimizer(inner(self.optimizers[0]), folder / RUN)
            self.checkpoint_io.save_checkpoint(checkpoint, folder / REST, storage_options=storage_options)
            sync(folder / REST)

    def load_checkpoint(self, checkpoint_path: str | os.PathLike, weights_only: bool | None = None) -> dict[str, Any]:
        """One of another strategy is a file."""
        folder = Path(checkpoint_path)
        if not folder.exists() and was_of(folder).exists():
            folder = was_of(folder)
        self.castor_folder = folder if folder.is_dir() else None
        return self.checkpoint_io.load_checkpoint(folder / REST if self.castor_folder else folder, weights_only=weights_only)

    def load_model_state_dict(self, checkpoint: Mapping[str, Any], strict: bool = True) -> None:
        if self.castor_folder:
            self.castor_booster.load_model(self.lightning_module, self.castor_folder, strict)
        else:
            super().load_model_state_dict(checkpoint, strict)

    def load_optimizer_state_dict(self, checkpoint: Mapping[str, Any]) -> None:
        optimizer = inner(self.optimizers[0])
        if self.castor_folder:
            self.castor_booster.load_optimizer(optimizer, self.castor_folder / RUN)
        else:
            optimizer.load_state_dict(checkpoint["optimizer_states"][0])

    def teardown(self) -> None:
        """The model stays boosted."""
        self.precision_plugin.teardown()
        self.accelerator.teardown()
        self.checkpoint_io.teardown()


def inner(optimizer: torch.optim.Optimizer) -> BoostedOptimizer:
    """Without Lightning's wrapper."""
    return getattr(optimizer, "_optimizer", optimizer)


StrategyRegistry.register(CastorStrategy.strategy_name, CastorStrategy, description="Castor's plugins on one device", override=True)
