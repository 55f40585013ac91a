#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The loop that `import castor` equals to the last bit, in plain torch operations with everything resident: bf16 weights,
fp32 masters, sums of gradients and states (tests/python/plain_loop.py). Prints one JSON line.
"""
import pathlib
import sys

import torch

import training

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tests" / "python"))


class Plain(training.Engine):
    name = "plain"

    def __init__(self, options):
        from plain_loop import PlainLoop

        super().__init__(options)
        self.make_resident()
        values = {"lr": options.lr, "betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": options.weight_decay}
        self.loop = PlainLoop(self.model, "adamw", [{**values, "params": list(self.model.parameters())}], torch.bfloat16)

    def step(self, ids, target):
        loss = self.backward(ids, target)
        with torch.no_grad():
            self.loop.step(self.options.clip)
        return loss


if __name__ == "__main__":
    training.main(Plain)
