# SPDX-License-Identifier: Apache-2.0
"""The parts that the engines share: options named as those of `castor train`, the loop and its clock, and the JSON line at the end."""
import argparse
import gc
import hashlib
import json
import os
import resource
import sys
import time

import torch

import gpt
import qwen
from castor_random import batch_seed, random_ids


def parser_of_all():
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", required=True, help="gpt:layers=A,hidden=B,heads=C,vocab=D,tied=0, or qwen2:SIZE")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cuda")
    parser.add_argument("--batch", type=int, default=8, help="samples of a micro-batch")
    parser.add_argument("--accumulate", type=int, default=1, help="micro-batches per step")
    parser.add_argument("--seq", type=int, default=1024, help="tokens per sample")
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--lr", type=float, default=6e-4)
    parser.add_argument("--weight-decay", type=float, default=0.01)
    parser.add_argument("--clip", type=float, default=0, help="global gradient norm; 0 = no clipping")
    parser.add_argument("--threads", type=int, default=0, help="0 = torch's own choice")
    parser.add_argument("--recompute", action="store_true")
    parser.add_argument("--compile", action="store_true", help="blocks by torch.compile")
    parser.add_argument("--lora", type=int, default=0, metavar="RANK", help="only peft's adapters of all linear layers learn, beside a frozen bf16 model")
    parser.add_argument("--bits", type=int, default=16, choices=(16, 4), help="4: beside adapters, frozen linear layers are bytes of bitsandbytes")
    parser.add_argument("--deterministic", action="store_true", help="torch's deterministic algorithms: two runs have equal losses")
    parser.add_argument("--profile", help="a file for the calls of the last two steps and the time of the threads that each takes")
    parser.add_argument("--loss", choices=("sliced", "torch"), default="sliced", help="sliced: as Castor's models compute it")
    return parser


def work_of(model):
    """What is trained: the module of its kind."""
    return qwen if model.startswith("qwen2:") else gpt


class Engine:
    """A model and its optimizer. `step` does all the work of one optimizer step and returns the loss, on the device."""

    name = ""

    def __init__(self, options):
        self.options = options
        self.device = torch.device(options.device)
        self.work = work_of(options.model)
        self.model = self.work.make(options.model, options.seq, options.recompute)
        if options.bits == 4:
            self.model = self.work.in_4_bit(self.model, options.seed, self.device)
        if options.lora:
            self.model = self.work.with_adapters(self.model, options.lora)
        self.n_params = sum(parameter.numel() for parameter in self.model.parameters())

    def trained(self):
        return [parameter for parameter in self.model.parameters() if parameter.requires_grad]

    def without_values(self):
        """By name, with the random numbers that each is filled with: frozen ones have values where they were quantized."""
        for stream, (name, parameter) in enumerate(self.model.named_parameters()):
            if self.options.bits == 16 or parameter.requires_grad:
                yield stream, name, parameter

    def bytes_digest(self):
        """Of frozen weights that are bytes, a layer at a time."""
        digest = hashlib.sha256()
        for layer in self.model.modules():
            if any(parameter.dtype == torch.uint8 for parameter in layer.parameters(recurse=False)):
                digest.update(layer.state_dict()["weight"].cpu().numpy())
        return digest.hexdigest()

    def make_resident(self, dtype=torch.float32):
        """Gives the model memory on the device, and its first weights. Frozen ones are bf16."""
        if self.options.bits == 4:
            self.model.to(self.device)
            with torch.no_grad():
                for stream, name, parameter in self.without_values():
                    parameter.copy_(self.work.first_values(parameter, name, self.options.seed, stream, self.device))
            return self.compile_blocks()
        for parameter in self.model.parameters():
            parameter.data = parameter.data.to(dtype if parameter.requires_grad else torch.bfloat16)
        self.work.place(self.model, self.device)
        self.work.initialise(self.model, self.options.seed, self.device)
        self.compile_blocks()

    def compile_blocks(self):
        for block in self.work.blocks(self.model) if self.options.compile else ():
            block.compile()

    def loss(self, ids, target):
        return self.work.loss_of(self.model, ids, target, self.options.loss)

    def backward(self, ids, target):
        """The mean loss of the step's micro-batches, with their gradients."""
        total = 0.0
        for of_micro in zip(ids.split(self.options.batch), target.split(self.options.batch)):
            loss = self.loss(*of_micro) / self.options.accumulate
            loss.backward()
            total = total + loss.detach()
        return total

    def step(self, ids, target):
        loss = self.backward(ids, target)
        if self.options.clip:
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.options.clip)
        self.optimizer.step()
        self.optimizer.zero_grad()
        return loss

    def figures(self):
        """More for the JSON line."""
        return {}

    def train(self, record):
        """Trains and fills `record` step by step, so that a failed run keeps the earlier steps."""
        measure(self, record)

    def close(self):
        """Shuts down everything that must end before the process."""


def adamw(parameters, options):
    return torch.optim.AdamW(
        parameters, lr=options.lr, betas=(0.9, 0.999), eps=1e-8, weight_decay=options.weight_decay, fused=True
    )


def batch(options, step):
    """The tokens of `castor train` at that step, and the same text shifted by one position."""
    shape = (options.batch * options.accumulate, options.seq + 1)
    text = random_ids(shape, work_of(options.model).vocab_of(options.model), batch_seed(options.seed, step)).to(options.device)
    return text[:, :-1].contiguous(), text[:, 1:].contiguous()


def peak_rss_bytes():
    with open("/proc/self/status") as lines:
        for line in lines:
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def profiler(options):
    """Of the operators and the calls of CUDA, in all threads; those take longer under it."""
    on = [torch.profiler.ProfilerActivity.CPU]
    return torch.profiler.profile(activities=on if options.device == "cpu" else [*on, torch.profiler.ProfilerActivity.CUDA])


def note_step(engine, record, seconds, loss):
    record["step_s"].append(seconds)
    record["losses"].append(loss)
    if engine.device.type == "cuda":
        record.setdefault("allocator_retries", []).append(torch.cuda.memory_stats()["num_alloc_retries"])
    print(f"step {len(record['step_s'])}/{engine.options.steps}  loss {loss:.4f}  {seconds:.4f} s", file=sys.stderr, flush=True)


def measure(engine, record):
    options = engine.options
    profile = profiler(options) if options.profile else None
    for step in range(options.steps):
        ids, target = batch(options, step)
        if profile and step == max(0, options.steps - 2):
            profile.start()
        begin = time.perf_counter()
        loss = engine.step(ids, target).item()  # waits for all work that the step queued
        note_step(engine, record, time.perf_counter() - begin, loss)
    if profile:
        profile.stop()
        with open(options.profile, "w") as file:
            file.write(profile.key_averages().table(sort_by="self_cpu_time_total", row_limit=80, max_name_column_width=60))


def note_peaks(engine, record):
    record["peak_rss_bytes"] = peak_rss_bytes()
    if engine.device.type == "cuda":
        record["peak_device_bytes"] = torch.cuda.max_memory_reserved()
        record["peak_allocated_bytes"] = torch.cuda.max_memory_allocated()
        record["peak_pinned_bytes"] = torch.cuda.host_memory_stats().get("allocated_bytes.peak")


class Unavailable(Exception):
    """This engine cannot run here; the message is a sentence for the table."""


def sentence(error):
    """The first sentence of torch's message, without the advice that follows."""
    if isinstance(error, Unavailable):
        return str(error)
    text = str(error).strip() or type(error).__name__
    first = text.splitlines()[0].split(". GPU ")[0]
    return first if isinstance(error, torch.OutOfMemoryError) else f"{type(error).__name__}: {first}"


def main(make, parser=None):
    """Builds the engine that `make(options)` returns, trains, prints one JSON line; exits with 1 if that failed."""
    chosen = (parser or parser_of_all()).parse_args()
    if chosen.threads:
        torch.set_num_threads(chosen.threads)
    if chosen.deterministic:
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
        torch.use_deterministic_algorithms(True)
    record = {"engine": make.name, "torch": torch.__version__, "step_s": [], "losses": [], "peak_device_bytes": None}
    try:
        if chosen.device == "cuda":
            record["gpu"] = torch.cuda.get_device_name(0)
        engine = make(chosen)
        record["params"] = engine.n_params
        gc.collect()
        if chosen.device == "cuda":  # drawing the first weights is not part of training
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()
        bytes_before = engine.bytes_digest() if chosen.bits == 4 else None
        engine.train(record)
        note_peaks(engine, record)
        record.update(engine.figures())
        if bytes_before:
            record["bytes_unchanged"] = engine.bytes_digest() == bytes_before
        engine.close()
    except Exception as error:  # becomes a row of the table
        record["error"] = {"message": sentence(error)}
    print(json.dumps(record), flush=True)
    sys.exit(1 if "error" in record else 0)
