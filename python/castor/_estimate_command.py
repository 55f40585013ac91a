# SPDX-License-Identifier: Apache-2.0
"""`python -m castor estimate --hf CONFIG`: castor.estimate of a model of Hugging Face."""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
from dataclasses import asdict
from pathlib import Path

import torch

from castor import _core
from castor._errors import Error
from castor._estimate import Estimate, estimate
from castor._values import check_value
from castor.booster.plugin import GeminiPlugin


FLAGS = {
    name: "--" + name.replace("_", "-")
    for name in ("device_budget", "host_budget", "nvme", "batch", "precision", "recompute", "micro_batches", "timed")
} | {"max_norm": "--clip"}


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        "castor estimate",
        allow_abbrev=False,
        description="Memory and time of the training of a model of Hugging Face, of which nothing is allocated. Without --hf: "
        "models that Castor has in C++ (castor estimate --help).",
    )
    made.add_argument("--hf", required=True, metavar="CONFIG", help="a config.json, or the folder with one")
    made.add_argument("--batch", type=int, default=1, help="samples of a micro-batch (1)")
    made.add_argument("--seq", type=int, default=2048, help="tokens of a sample (2048)")
    made.add_argument("--device-budget", required=True, help="of the GPU, as 24GiB")
    made.add_argument("--host-budget", help="of the host, as 100GiB")
    made.add_argument("--nvme", metavar="DIR", help="the folder of the NVMe tier; it is not opened")
    made.add_argument("--precision", default="bf16", choices=("bf16", "fp16", "fp32"))
    made.add_argument("--recompute", action="store_true", help="recompute each block in backward")
    made.add_argument("--clip", type=float, default=0.0, help="the norm that gradients are clipped to (0: off)")
    made.add_argument("--micro-batches", type=int, default=1, help="backward passes of a step (1)")
    made.add_argument("--flops-per-s", type=float, help="that the GPU reaches (4.5e14)")
    timed = "time one of the model's blocks, the links and an update on this machine's GPU (2 s)"
    made.add_argument("--timed", action="store_true", help=timed)
    made.add_argument("--json", action="store_true", help="one JSON object")
    return made


def model_of(config: Path, recompute: bool) -> torch.nn.Module:
    try:
        from transformers import AutoConfig, AutoModelForCausalLM
    except ImportError:
        raise Error("transformers is not installed: pip install transformers", "usage", "--hf") from None
    if not config.exists():
        raise Error(f"there is no {config}; name a config.json, or the folder with one", "usage", "--hf")
    try:
        with torch.device("meta"):
            found = AutoConfig.from_pretrained(config)
            if getattr(found, "quantization_config", None):
                raise Error(f"{config} is of a quantized model; estimate it without quantization_config", "usage", "--hf")
            model = AutoModelForCausalLM.from_config(found)
    except Error:
        raise
    except Exception as error:  # of any kind, where sizes do not go together
        why = str(error).strip().splitlines()[0]
        raise Error(f"{config} is no config of a causal language model that transformers knows: {why}", "usage", "--hf") from None
    if recompute:
        model.gradient_checkpointing_enable({"use_reentrant": False})
    return model.train()


def found_for(options: argparse.Namespace) -> Estimate:
    budgets = {"device_budget": options.device_budget, "host_budget": options.host_budget}
    nvme = {"nvme": [options.nvme]} if options.nvme else {}
    plugin = GeminiPlugin(
        precision=options.precision,
        max_norm=options.clip,
        micro_batches=options.micro_batches,
        **{name: value for name, value in budgets.items() if value},
        **nvme,
    )
    for name in ("batch", "seq", "flops_per_s"):
        value = getattr(options, name)
        check_value("--" + name.replace("_", "-"), value, "a number above 0", value is None or value > 0)
    if options.timed and not torch.cuda.is_available():
        raise Error("--timed needs the GPU, and torch sees none; leave it out, and state --flops-per-s", "usage", "--timed")
    tokens = torch.empty(options.batch, options.seq, dtype=torch.long, device="meta")
    machine = {"flops_per_s": options.flops_per_s} if options.flops_per_s else None
    model = model_of(Path(options.hf), options.recompute)
    try:
        return estimate(model, plugin, {"input_ids": tokens, "labels": tokens}, machine=machine, timed=options.timed)
    except Error:
        raise
    except (RuntimeError, IndexError, ValueError) as error:
        most = getattr(model.config, "max_position_embeddings", None)
        known = f", which the model has positions for up to {most} of" if most and options.seq > most else ""
        why = str(error).strip().splitlines()[0]
        raise Error(f"the model does not run on {options.batch} x {options.seq} tokens{known}: {why}", "usage", "--seq") from None


def main(arguments: list[str]) -> int:
    options = parser().parse_args(arguments)
    try:
        found = found_for(options)
    except Error as error:
        as_flags = re.sub(r"`([a-z_]+)`|^[a-z_]+\b", lambda found: FLAGS.get(found[1] or found[0], found[0]), str(error))
        print(f"castor: {as_flags}", file=sys.stderr)
        return 1
    if options.json:
        print(json.dumps(asdict(found)))
        return os.EX_OK
    tokens_per_s = options.batch * options.seq * options.micro_batches / found.step_s
    print(f"{found}\n{_core.format_bytes(found.activation_bytes)} of activations; {tokens_per_s:.0f} tokens/s")
    return os.EX_OK
