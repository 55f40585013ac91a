#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""FSDP2 with its CPU offload: fully_shard per block, fp32 parameters and states in pinned host memory, bf16 on the device, fused CPU AdamW.

One process, so no reduction between ranks takes place: reduce_dtype=bf16 gives the same numbers as fp32 and takes less
of the device. On a CPU there is no offload; only the blocks are sharded. Prints one JSON line.
"""
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import CPUOffloadPolicy, MixedPrecisionPolicy, OffloadPolicy, fully_shard

import training


class Fsdp2(training.Engine):
    name = "fsdp2"

    def __init__(self, options):
        super().__init__(options)
        cuda = self.device.type == "cuda"
        # gloo too, because clipping adds up norms of gradients on the host
        store = dist.TCPStore("127.0.0.1", 0, world_size=1, is_master=True)  # on a free port
        dist.init_process_group("cpu:gloo,cuda:nccl" if cuda else "gloo", store=store, rank=0, world_size=1)
        shard = {
            "mesh": init_device_mesh(self.device.type, (1,)),
            "mp_policy": MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.bfloat16),
            "offload_policy": CPUOffloadPolicy(pin_memory=True) if cuda else OffloadPolicy(),
        }
        for block in self.work.blocks(self.model):
            fully_shard(block, **shard)
        fully_shard(self.model, **shard)
        self.work.place(self.model, "cpu")
        self.work.initialise(self.model, options.seed, self.device, local=lambda parameter: parameter.to_local())
        self.compile_blocks()
        self.optimizer = training.adamw(self.model.parameters(), options)

    def close(self):
        dist.destroy_process_group()


if __name__ == "__main__":
    training.main(Fsdp2)
