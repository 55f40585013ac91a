# SPDX-License-Identifier: Apache-2.0
"""The Trainer of transformers, and those made from it, with a model that Castor has boosted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import nn
from transformers import Trainer, TrainerCallback, TrainingArguments

from castor._access import is_boosted
from castor._errors import Error
from castor.booster import Booster
from castor.booster._choices import plugin_of_loop
from castor.booster._plugin import Plugin
from castor.integrations import RUN, drop_open_step
from castor.integrations.accelerate import boosting, inner

__all__ = ["CastorMixin", "CastorTrainer"]

SCHEDULER = "scheduler.pt"  # as the Trainer calls it


class CastorMixin:
    """Before Trainer, or a trainer made from it, among a class's bases: trains under a plugin of Castor.

    plugin: of castor.booster.plugin; None: GeminiPlugin. Where the plugin states no precision but its usual one, bf16 and fp16
    of the TrainingArguments do, and where it states no max_norm, max_grad_norm does. The model may be on the CPU, or on the meta
    device where a checkpoint is loaded into it.
    """

    def __init__(self, *args: Any, plugin: Plugin | None = None, **kwargs: Any):
        self.castor_plugin = plugin
        super().__init__(*args, **kwargs)
        for callback in self.callback_handler.callbacks:
            if hasattr(callback, "jit_manager"):  # it would save before optimizer.step(), in the middle of Castor's step
                callback.on_pre_optimizer_step = TrainerCallback.on_pre_optimizer_step.__get__(callback)

    def _build_accelerator_args(self, **kwargs: Any) -> dict[str, Any]:
        return {**super()._build_accelerator_args(**kwargs), "mixed_precision": "no"}

    def create_accelerator_and_postprocess(self) -> None:
        if self.args.bf16_full_eval or self.args.fp16_full_eval:
            why = "bf16_full_eval and fp16_full_eval cast the model, which Castor has placed; the plugin's precision is that of evaluations"
            raise Error(f"{why} too", "usage", "bf16_full_eval")
        super().create_accelerator_and_postprocess()
        self.args._n_gpu = min(self.args.n_gpu, 1)  # not DataParallel
        self.castor_booster = Booster(self.args.device, plugin=plugin_for(self.args, self.castor_plugin))
        boosting(self.accelerator, self.castor_booster)

    def _move_model_to_device(self, model: nn.Module, device: torch.device) -> None:
        """Castor does."""

    def _wrap_model(self, model: nn.Module, training: bool = True, dataloader: object = None) -> nn.Module:
        """An evaluation before training needs a boosted model too; without data to train on it is boosted frozen."""
        if training and is_boosted(model) and not any(parameter.requires_grad for parameter in model.parameters()):
            why = "the model was boosted to be evaluated, by a trainer without train_dataset, and is frozen"
            raise Error(f"{why}; train another one, or give train_dataset before", "usage")
        if not training and not is_boosted(model):
            if self.train_dataset is None:
                model.requires_grad_(False)
                self.castor_booster.boost(model)
            else:
                self.castor_booster.boost(model, inner(self.create_optimizer()))
        return super()._wrap_model(model, training, dataloader)

    def _clip_grad_norm(self, model: nn.Module) -> None:
        """The plugin clips, and knows the norm after the step."""

    def _get_grad_norm(self, model: nn.Module, grad_norm: None = None) -> None:
        """See _maybe_log_save_evaluate."""

    def _maybe_log_save_evaluate(self, tr_loss: torch.Tensor, grad_norm: None, *args: Any, **kwargs: Any) -> None:
        super()._maybe_log_save_evaluate(tr_loss, inner(self.optimizer).get_grad_norm(), *args, **kwargs)

    def train(self, *args: Any, **kwargs: Any) -> Any:
        try:
            return super().train(*args, **kwargs)
        finally:
            drop_open_step(inner(self.optimizer))

    def _save_optimizer_and_scheduler(self, output_dir: str) -> None:
        if self.args.should_save:
            self.castor_booster.save_optimizer(inner(self.optimizer), Path(output_dir) / RUN)
            self.castor_booster.save_lr_scheduler(self.lr_scheduler, Path(output_dir) / SCHEDULER)

    def _load_optimizer_and_scheduler(self, checkpoint: str | None) -> None:
        """And the weights, which _load_from_checkpoint would give to a model that is not boosted yet."""
        if checkpoint is None:
            return
        of_castor = (Path(checkpoint) / RUN).is_dir()
        if of_castor:  # before the weights: it may be refused
            self.castor_booster.load_optimizer(inner(self.optimizer), Path(checkpoint) / RUN)
            self.castor_booster.load_lr_scheduler(self.lr_scheduler, Path(checkpoint) / SCHEDULER)
        if not is_peft(self.model):
            self.castor_booster.load_model(self.model, checkpoint)
        if not of_castor:
            super()._load_optimizer_and_scheduler(checkpoint)

    def _load_from_checkpoint(self, resume_from_checkpoint: str, model: nn.Module | None = None) -> None:
        if is_peft(self.model if model is None else model):
            super()._load_from_checkpoint(resume_from_checkpoint, model)

    def _load_best_model(self) -> None:
        drop_open_step(inner(self.optimizer))
        if is_peft(self.model) or not Path(self.state.best_model_checkpoint).is_dir():  # then a warning
            super()._load_best_model()
        else:
            self.castor_booster.load_model(self.model, self.state.best_model_checkpoint)


class CastorTrainer(CastorMixin, Trainer):
    """transformers.Trainer under a plugin of Castor: CastorTrainer(model, args, …, plugin=GeminiPlugin(device_budget='20GiB'))."""


def plugin_for(args: TrainingArguments, plugin: Plugin | None) -> Plugin:
    """Each backward pass within accelerate's no_sync is followed by another one of its step, and any other is the last."""
    precision = "bf16" if args.bf16 else "fp16" if args.fp16 else None
    return plugin_of_loop(plugin, precision, args.max_grad_norm, micro_batches=1)


def is_peft(model: nn.Module) -> bool:
    return hasattr(model, "peft_config")
