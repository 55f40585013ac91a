#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Plain PyTorch, everything resident: fp32 parameters are their own masters, autocast computes in bf16, fused AdamW.

The usual code while the device holds everything: 16 bytes per parameter. Prints one JSON line.
"""
import torch

import training


class Resident(training.Engine):
    name = "torch"

    def __init__(self, options):
        super().__init__(options)
        self.make_resident()
        self.optimizer = training.adamw(self.trained(), options)

    def loss(self, ids, target):
        with torch.autocast(self.device.type, torch.bfloat16):
            return super().loss(ids, target)


if __name__ == "__main__":
    training.main(Resident)
