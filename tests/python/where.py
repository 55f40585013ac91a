# SPDX-License-Identifier: Apache-2.0
"""The device that the cases train on: CASTOR_TEST_DEVICE, else the CPU."""

import os

import torch

DEVICE = torch.device(os.environ.get("CASTOR_TEST_DEVICE", "cpu"))

if DEVICE.type == "cpu":
    os.environ["CUDA_VISIBLE_DEVICES"] = ""  # a Booster takes the GPU where there is one
elif DEVICE.type == "cuda":  # its usual algorithms give other bits from run to run
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.backends.cudnn.benchmark = False


def small_budget(text: str) -> str:
    """`text` on the CPU; a GPU's budget holds whole segments of torch's allocator, of 20 MiB."""
    return text if DEVICE.type == "cpu" else "512MiB"


def is_there(device: torch.device) -> bool:
    return device.type == "cpu" or torch.cuda.is_available()
