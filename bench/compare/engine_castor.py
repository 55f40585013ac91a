#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`import castor`: the same loop as plain PyTorch's, with the model and its optimizer under a Booster.

The model is built on the meta device; its first weights are given to the boosted model one by one. Prints one JSON line.
"""
import ast
import logging

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
        from castor.booster import Booster
        from castor.booster.plugin import GeminiPlugin, TorchDDPPlugin

        logging.basicConfig(level=logging.INFO)
        super().__init__(options)
        self.work.give_buffers(self.model, "cpu")
        common = {"precision": "bf16", "max_norm": options.clip, "micro_batches": options.accumulate}
        if options.plugin == "none":
            plugin = TorchDDPPlugin(**common)
        else:
            more = {name: value_of(text) for name, text in (setting.split("=", 1) for setting in options.set)}
            plugin = GeminiPlugin(device_budget=options.device_budget, host_budget=options.host_budget, nvme=options.nvme, **common, **more)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=options.lr, weight_decay=options.weight_decay)
        Booster(device=options.device, plugin=plugin).boost(self.model, self.optimizer)
        for stream, (name, parameter) in enumerate(self.model.named_parameters()):
            values = self.work.first_values(parameter, name, options.seed, stream, self.device)
            self.model.load_state_dict({name: values}, strict=False)
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
        return stats


def parser():
    parser = training.parser_of_all()
    parser.add_argument("--plugin", choices=("gemini", "none"), default="gemini", help="none: everything stays on the device")
    parser.add_argument("--device-budget")
    parser.add_argument("--host-budget")
    parser.add_argument("--nvme", action="append", help="a folder of the NVMe tier")
    parser.add_argument("--set", action="append", default=[], help="another option of the plugin, NAME=VALUE")
    parser.add_argument("--trace", help="a file for the events (docs/trace.md)")
    parser.add_argument("--json", action="store_true", help="always on")
    return parser


if __name__ == "__main__":
    training.main(Castor, parser())
