# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn

from castor._boost import boost_pair
from castor._errors import Error
from castor.booster._choices import boosted_model, boosted_optimizer, check_plugin, device_of, plugin_for
from castor.booster._files import save_model
from castor.booster._loading import load_model
from castor.booster._plugin import Plugin
from castor.booster.plugin import HybridParallelPlugin, TorchDDPPlugin
from castor.lazy import LazyInitContext
from castor.mixed_precision import MixedPrecision


class Booster:
    """Gives a model, its optimizer and what goes with them to a plugin.

    device: where the model trains; None: the current GPU if there is one, else where the model is. mixed_precision: 'fp16',
    'bf16', its dtype or an object of castor.mixed_precision, for a plugin that states no precision.
    """

    def __init__(
        self,
        device: str | torch.device | None = None,
        mixed_precision: torch.dtype | str | MixedPrecision | None = None,
        plugin: Plugin | None = None,
    ):
        self.plugin = TorchDDPPlugin() if plugin is None else check_plugin(plugin)
        self.device = device_of(device)
        self.mixed_precision = mixed_precision
        self._plugin_of_training = plugin_for(self.plugin, mixed_precision)

    def boost(
        self,
        model: nn.Module,
        optimizer: torch.optim.Optimizer | None = None,
        criterion: object = None,
        dataloader: object = None,
        lr_scheduler: object = None,
    ):
        """The five, in this order; model and optimizer are the same objects as before, and train under the plugin."""
        if optimizer is not None:
            boost_pair(model, optimizer, self._plugin_of_training, self.device)
        else:
            LazyInitContext.materialize(model)
            if self.device is not None:
                model.to(self.device)
        return model, optimizer, criterion, dataloader, lr_scheduler

    def backward(self, loss: torch.Tensor, optimizer: torch.optim.Optimizer) -> None:
        boosted_optimizer(optimizer).backward(loss)

    def execute_pipeline(
        self,
        data_iter: Iterator,
        model: nn.Module,
        criterion: Callable[[Any, Any], torch.Tensor],
        optimizer: torch.optim.Optimizer | None = None,
        return_loss: bool = True,
        return_outputs: bool = False,
    ) -> dict[str, Any]:
        """The forward and backward passes of the next batch in micro-batches, as HybridParallelPlugin states them.

        criterion(outputs, inputs) is the loss of a micro-batch; 'loss' is the mean, and gradients are those of the mean.
        Without an optimizer, or with gradients off, there are forward passes alone.
        """
        if not isinstance(self.plugin, HybridParallelPlugin):
            raise Error(
                f"execute_pipeline is of HybridParallelPlugin, and the plugin is {type(self.plugin).__name__}", "usage"
            )
        from castor.booster._pipeline import run_micro_batches

        if optimizer is not None:
            boosted_optimizer(optimizer)
        sizes = self.plugin.num_microbatches, self.plugin.microbatch_size
        loss, outputs = run_micro_batches(next(data_iter), model, criterion, optimizer, sizes, return_outputs)
        return {"loss": loss if return_loss else None, "outputs": outputs}

    def no_sync(self, model: nn.Module, optimizer: torch.optim.Optimizer | None = None):
        """Within it no backward pass is the last of its step, where the plugin states micro_batches."""
        return boosted_model(model).no_sync()

    def save_model(
        self,
        model: nn.Module,
        path: str | os.PathLike,
        shard: bool = False,
        gather_dtensor: bool = True,
        prefix: str | None = None,
        size_per_shard: int = 1024,
        use_safetensors: bool = True,
        use_async: bool = False,
    ) -> None:
        """Weights by name: in the file `path`, or with `shard` in the folder `path`, in files of up to `size_per_shard` MB
        with an index, as Hugging Face reads them."""
        save_model(model, path, shard, prefix, size_per_shard, use_safetensors)

    def load_model(self, model: nn.Module, path: str | os.PathLike, strict: bool = True) -> None:
        """Weights from a file, a folder with an index, or the index itself."""
        load_model(model, path, strict)

    def save_optimizer(self, optimizer: torch.optim.Optimizer, path: str | os.PathLike, shard: bool = False, **_) -> None:
        """Masters, moments, counters and the loss scale, in the folder `path`."""
        boosted_optimizer(optimizer).castor_session.save(os.fspath(path))

    def load_optimizer(self, optimizer: torch.optim.Optimizer, path: str | os.PathLike) -> None:
        """What save_optimizer has saved, weights included; on any budgets, before the first step."""
        boosted_optimizer(optimizer).castor_resume(path)

    def save_lr_scheduler(self, lr_scheduler, path: str | os.PathLike) -> None:
        torch.save(lr_scheduler.state_dict(), path)

    def load_lr_scheduler(self, lr_scheduler, path: str | os.PathLike) -> None:
        lr_scheduler.load_state_dict(torch.load(path))
        for group, rate in zip(lr_scheduler.optimizer.param_groups, lr_scheduler.get_last_lr()):
            group["lr"] = rate
