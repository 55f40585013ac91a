#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""GPT-2 with the wrappers zero_model_wrapper and zero_optim_wrapper, its states in memory or on a drive.

    python examples/python/gpt2_zero.py --nvme-offload-fraction 1.0 --nvme-offload-dir drive

Needs transformers. --small trains a model of two blocks.
"""

import argparse
import time

import torch
from transformers import GPT2Config, GPT2LMHeadModel

import castor
from castor.nn.optimizer import HybridAdam
from castor.utils import get_current_device
from castor.utils.model.colo_init_context import ColoInitContext
from castor.zero import zero_model_wrapper, zero_optim_wrapper


def main() -> list[float]:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--seq", type=int, default=128)
    parser.add_argument("--placement-policy", default="auto", choices=("auto", "cpu", "cuda", "const", "static"))
    parser.add_argument("--nvme-offload-fraction", type=float, default=0.0)
    parser.add_argument("--nvme-offload-dir")
    parser.add_argument("--small", action="store_true")
    options = parser.parse_args()

    torch.manual_seed(0)
    device = get_current_device()
    sizes = {"n_embd": 64, "n_layer": 2, "n_head": 4, "vocab_size": 512} if options.small else {}
    config = GPT2Config(resid_pdrop=0, embd_pdrop=0, attn_pdrop=0, **sizes)
    with ColoInitContext(device=device):
        model = GPT2LMHeadModel(config)
    optimizer = HybridAdam(
        model.parameters(),
        lr=1e-3,
        nvme_offload_fraction=options.nvme_offload_fraction,
        nvme_offload_dir=options.nvme_offload_dir,
    )
    gemini = {"device": device, "placement_policy": options.placement_policy, "pin_memory": True}
    model = zero_model_wrapper(model, zero_stage=3, gemini_config=gemini)
    optimizer = zero_optim_wrapper(model, optimizer)

    losses = []
    for step in range(options.steps):
        ids = torch.randint(0, config.vocab_size, (options.batch, options.seq), generator=torch.Generator().manual_seed(step))
        begin = time.perf_counter()
        optimizer.zero_grad()
        loss = model(input_ids=ids.to(device), labels=ids.to(device)).loss
        optimizer.backward(loss)
        optimizer.step()
        losses.append(loss.item())
        print(f"step {step + 1}: loss {losses[-1]:.4f}, {time.perf_counter() - begin:.2f} s")
    used = castor.stats(model)["used_bytes"]
    print(", ".join(f"{tier} {n_bytes / 2**20:.1f} MiB" for tier, n_bytes in used.items()))
    return losses


if __name__ == "__main__":
    main()
