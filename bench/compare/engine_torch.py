#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Plain PyTorch, everything resident: fp32 parameters are their own masters, autocast computes in bf16, fused AdamW.

The usual code while the device holds everything: 16 bytes per parameter. Prints one JSON line.
"""
import torch

import training
from gpt import initialise, loss_of


class Resident(training.Engine):
    name = "torch"

    def __init__(self, options):
        super().__init__(options)
        self.model.to_empty(device=self.device)
        initialise(self.model, options.seed, self.device)
        self.optimizer = training.adamw(self.model.parameters(), options)

    def loss(self, ids, target):
        with torch.autocast(self.device.type, torch.bfloat16):
            logits = self.model(ids)
        return loss_of(logits, target, self.options.loss)


if __name__ == "__main__":
    training.main(Resident)
