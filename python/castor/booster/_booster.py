# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from castor._boost import boost_frozen, boost_pair
from castor._errors import Error
from castor._guards import check_kinds
from castor.booster._choices import (
    boosted_model,
    boosted_optimizer,
    check_plugin,
    check_saving,
    check_shards,
    check_states,
    check_unknown,
    device_of,
    plugin_for,
)
from castor.booster._files import loaded, python_numbers, write
from castor.booster._loading import load_model
from castor.booster._lora import save_adapters, with_adapters
from castor.booster._plugin import Plugin
from castor.booster._runs import load_run, save_run
from castor.booster._saving import save_model
from castor.booster.plugin import HybridParallelPlugin, TorchDDPPlugin
from castor.mixed_precision import MixedPrecision

if TYPE_CHECKING:
    from peft import PeftConfig, PeftModel


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
        """The five, in this order; model and optimizer are the same objects as before, and train under the plugin. Without an
        optimizer the model is for inference, and its parameters are frozen."""
        check_kinds(model, optimizer)
        if optimizer is not None:
            boost_pair(model, optimizer, self._plugin_of_training, self.device)
        else:
            boost_frozen(model, self._plugin_of_training, self.device)
        return model, optimizer, criterion, dataloader, lr_scheduler

    def enable_lora(
        self,
        model: nn.Module,
        pretrained_dir: str | os.PathLike | None = None,
        lora_config: PeftConfig | None = None,
        **unknown: Any,
    ) -> PeftModel:
        """The model with adapters of peft that are trained, and its own parameters frozen: make the optimizer from it, and boost
        both. pretrained_dir: a folder of save_lora_as_pretrained, whose adapters go on. lora_config: of new ones. A base on the
        meta device gets its weights from load_model, after boost; adapters of a folder have theirs."""
        check_unknown(Booster.enable_lora, unknown)
        return with_adapters(model, pretrained_dir, lora_config)

    def save_lora_as_pretrained(self, model: nn.Module, checkpoint: str | os.PathLike, use_safetensors: bool = True) -> None:
        """The adapters alone, in the folder `checkpoint`, as peft reads them."""
        save_adapters(model, checkpoint, use_safetensors)

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
        **unknown: Any,
    ) -> None:
        """Weights by name: in the file `path`, or with `shard` in the folder `path`, in files of up to `size_per_shard` MB
        with an index, as Hugging Face reads them; of a model with adapters of peft the folder gets these alone. What was there
        is replaced once all is written.

        prefix: the beginning of the files' names, in place of model or pytorch_model; in a folder with files of those names
        load_model reads those, unless `path` is the index.
        """
        check_unknown(Booster.save_model, unknown)
        check_saving(gather_dtensor, use_async)
        check_shards(shard, prefix, size_per_shard)
        save_model(model, Path(path), shard, prefix, size_per_shard, use_safetensors)

    def load_model(self, model: nn.Module, path: str | os.PathLike, strict: bool = True) -> None:
        """Weights from a file of safetensors or of torch.save, whatever its name, an index, or a folder, of whose files
        those are read that from_pretrained reads. A folder of adapters gives a model with adapters theirs."""
        load_model(model, path, strict)

    def save_optimizer(
        self,
        optimizer: torch.optim.Optimizer,
        path: str | os.PathLike,
        shard: bool = False,
        gather_dtensor: bool = True,
        prefix: str | None = None,
        size_per_shard: int = 1024,
        use_async: bool = False,
        **unknown: Any,
    ) -> None:
        """Masters, moments, counters, the loss scale and the values of the groups, in the folder `path`, with `shard` or
        without. A run that the folder holds is replaced once all is written; other files stay."""
        check_unknown(Booster.save_optimizer, unknown)
        check_saving(gather_dtensor, use_async)
        check_states(prefix, size_per_shard)
        save_run(boosted_optimizer(optimizer), Path(path))

    def load_optimizer(self, optimizer: torch.optim.Optimizer, path: str | os.PathLike) -> None:
        """What save_optimizer has saved, weights included; on any budgets, between two steps (a commit of this process: before
        the first). Each group gets the values that its parameters were saved with."""
        load_run(boosted_optimizer(optimizer), Path(path))

    def save_lr_scheduler(self, lr_scheduler, path: str | os.PathLike) -> None:
        write(python_numbers(lr_scheduler.state_dict()), Path(path), use_safetensors=False)

    def load_lr_scheduler(self, lr_scheduler, path: str | os.PathLike) -> None:
        lr_scheduler.load_state_dict(loaded(Path(path)))
        for group, rate in zip(lr_scheduler.optimizer.param_groups, lr_scheduler.get_last_lr()):
            group["lr"] = rate
