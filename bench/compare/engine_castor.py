#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`import castor`: the same loop as plain PyTorch's, with the model and its optimizer under a Booster.

The model is built on the meta device; its first weights are given to the boosted model one by one. Prints one JSON line.
"""
import argparse
import ast
import dataclasses
import logging
import tempfile
import time

import torch

import training


def value_of(text):
    """The number, boolean or None that `text` stands for, else the text itself."""
    try:
        return ast.literal_eval(text)
    except (SyntaxError, ValueError):
        return text


class Castor(training.Engine):
    name = "castor"

    def __init__(self, options):
        from castor.booster.plugin import GeminiPlugin, TorchDDPPlugin

        logging.basicConfig(level=logging.INFO)
        super().__init__(options)
        if options.bits == 16:
            self.work.give_buffers(self.model, "cpu")
        common = {"precision": "bf16", "max_norm": options.clip, "micro_batches": options.accumulate}
        if options.plugin == "none":
            plugin = TorchDDPPlugin(**common)
        else:
            more = {name: value_of(text) for name, text in (setting.split("=", 1) for setting in options.set)}
            plugin = GeminiPlugin(device_budget=options.device_budget, host_budget=options.host_budget, nvme=options.nvme, **common, **more)
        self.estimated = self.estimate(plugin) if options.estimate else None
        self.boost(plugin)

    def estimate(self, plugin):
        """Of this training, from a unit of it that is timed before the rest has memory."""
        import castor

        of_micro = tuple(tokens[: self.options.batch].to("meta") for tokens in training.batch(self.options, 0))
        loss = lambda model, tokens: self.work.loss_of(model, *tokens, self.options.loss)  # noqa: E731
        found = castor.estimate(self.model, plugin, of_micro, loss, device=self.options.device, timed=True)
        logging.getLogger(__name__).info("%s", found)
        return dataclasses.asdict(found)

    def boost(self, plugin):
        from castor.booster import Booster

        self.optimizer = torch.optim.AdamW(self.trained(), lr=self.options.lr, weight_decay=self.options.weight_decay)
        Booster(device=self.options.device, plugin=plugin).boost(self.model, self.optimizer)
        self.begin()

    def begin(self):
        """First weights, 512 MiB of them at a time: each call of load_state_dict visits every module."""
        values = {}
        for stream, name, parameter in self.without_values():
            values[name] = self.work.first_values(parameter, name, self.options.seed, stream, self.device)
            if sum(value.nbytes for value in values.values()) >= 512 << 20:
                self.model.load_state_dict(values, strict=False)
                values.clear()
        self.model.load_state_dict(values, strict=False)
        self.compile_blocks()

    def step(self, ids, target):
        """The plugin clips."""
        loss = self.backward(ids, target)
        self.optimizer.step()
        self.optimizer.zero_grad()
        return loss

    def figures(self):
        import castor

        if self.options.trace:
            castor.trace(self.model, self.options.trace)
        stats = castor.stats(self.model)
        if self.device.type == "cuda":  # chunks lie beside torch's allocator
            stats["peak_device_bytes"] = stats["peak_bytes"]["device"]
        if self.estimated:
            stats["estimated"] = self.estimated
        return stats


class ByTrainer(Castor):
    """The loop is that of transformers' Trainer. A step's time is that from the end of the step before to its own, data included."""

    def boost(self, plugin):
        """The Trainer does."""
        self.plugin = plugin

    def train(self, record):
        from castor.integrations.transformers import CastorTrainer
        from transformers import TrainerCallback, TrainingArguments

        engine, options = self, self.options

        class Clock(TrainerCallback):
            def on_train_begin(self, args, state, control, **kwargs):
                engine.begin()
                self.begin = time.perf_counter()

            def on_log(self, args, state, control, logs=None, **kwargs):
                """After each step, when the loss was read back."""
                now = time.perf_counter()
                if "loss" in logs:
                    training.note_step(engine, record, now - self.begin, float(logs["loss"]))
                self.begin = now

        with tempfile.TemporaryDirectory() as folder:
            args = TrainingArguments(
                folder,
                per_device_train_batch_size=options.batch,
                gradient_accumulation_steps=options.accumulate,
                max_steps=options.steps,
                learning_rate=options.lr,
                lr_scheduler_type="constant",
                weight_decay=options.weight_decay,
                max_grad_norm=options.clip,
                logging_steps=1,
                save_strategy="no",
                report_to=[],
                disable_tqdm=True,
                use_cpu=options.device == "cpu",
            )
            CastorTrainer(self.model, args, train_dataset=texts(options), callbacks=[Clock()], plugin=self.plugin).train()


def texts(options):
    """The tokens of all steps, as the other loop has them."""
    on_cpu = argparse.Namespace(**{**vars(options), "device": "cpu"})
    ids = [row for step in range(options.steps) for row in training.batch(on_cpu, step)[0]]
    return [{"input_ids": row, "labels": row} for row in ids]


def engine_of(options):
    return (ByTrainer if options.loop == "trainer" else Castor)(options)


engine_of.name = Castor.name


def parser():
    parser = training.parser_of_all()
    parser.add_argument("--plugin", choices=("gemini", "none"), default="gemini", help="none: everything stays on the device")
    parser.add_argument("--device-budget")
    parser.add_argument("--host-budget")
    parser.add_argument("--nvme", action="append", help="a folder of the NVMe tier")
    parser.add_argument("--set", action="append", default=[], help="another option of the plugin, NAME=VALUE")
    parser.add_argument("--estimate", action="store_true", help="first castor.estimate with timed=True, in the JSON line too")
    parser.add_argument("--trace", help="a file for the events (docs/trace.md)")
    parser.add_argument("--loop", choices=("bare", "trainer"), default="bare", help="trainer: that of transformers")
    parser.add_argument("--json", action="store_true", help="always on")
    return parser


if __name__ == "__main__":
    training.main(engine_of, parser())
