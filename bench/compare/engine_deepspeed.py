#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""DeepSpeed's ZeRO-2 with its optimizer on the host: bf16 weights on the device, fp32 masters and states in pinned host
memory, its CPU Adam.

Runs wherever `import deepspeed` works (it compiles its Adam at first use). Prints one JSON line.
"""
import os
import socket

import torch

import training


def settings(options):
    return {
        "train_micro_batch_size_per_gpu": options.batch,
        "bf16": {"enabled": True},
        "gradient_clipping": options.clip,
        "zero_optimization": {
            "stage": 2,
            "offload_optimizer": {"device": "cpu", "pin_memory": True},
            "overlap_comm": True,
            "contiguous_gradients": True,
        },
        "optimizer": {
            "type": "AdamW",
            "params": {"lr": options.lr, "betas": [0.9, 0.999], "eps": 1e-8, "weight_decay": options.weight_decay},
        },
        "steps_per_print": 1 << 30,
    }


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


class DeepSpeed(training.Engine):
    name = "deepspeed"

    def __init__(self, options):
        if options.device != "cuda":
            raise training.Unavailable("this comparison runs DeepSpeed on a GPU only")
        try:
            import deepspeed
        except ImportError as error:
            raise training.Unavailable(f"DeepSpeed cannot be imported: {error}") from error
        super().__init__(options)
        os.environ |= {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1"}
        os.environ["MASTER_PORT"] = str(free_port())
        deepspeed.init_distributed("nccl")
        # DeepSpeed makes its masters from the bf16 weights, so fp32 values would waste memory.
        self.make_resident(torch.bfloat16)
        self.engine, *_ = deepspeed.initialize(
            model=self.model, model_parameters=self.model.parameters(), config=settings(options)
        )

    def step(self, ids, target):
        loss = self.work.loss_of(self.engine, ids, target, self.options.loss)
        self.engine.backward(loss)
        self.engine.step()
        return loss.detach()

    def close(self):
        torch.distributed.destroy_process_group()


if __name__ == "__main__":
    training.main(DeepSpeed)
