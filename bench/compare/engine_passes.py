#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Forward and backward passes alone: bf16 weights stay on the device, gradients are dropped. No training can be faster.

Prints one JSON line.
"""
import torch

import training


class Passes(training.Engine):
    name = "passes"

    def __init__(self, options):
        super().__init__(options)
        self.make_resident(torch.bfloat16)
        for parameter in self.model.parameters():
            parameter.register_post_accumulate_grad_hook(drop)

    def step(self, ids, target):
        return self.backward(ids, target)


def drop(parameter):
    parameter.grad = None


if __name__ == "__main__":
    training.main(Passes)
