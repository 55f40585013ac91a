# SPDX-License-Identifier: Apache-2.0
"""The cases of the comparison: a training job each, Castor's budgets for it, and the engines to compare with."""
from dataclasses import dataclass

SMALL = "gpt:layers=48,hidden=1600,heads=25,vocab=50304,tied=0"  # 1,638,172,800 parameters
LARGE = "gpt:layers=32,hidden=3072,heads=24,vocab=50304,tied=0"  # 3,937,376,256
TINY = "gpt:layers=2,hidden=64,heads=4,vocab=512,tied=0"
PEERS = ("torch", "fsdp2", "deepspeed")
ENGINES = (*PEERS, "plain", "passes")


@dataclass(frozen=True)
class Case:
    name: str
    model: str
    batch: int
    seq: int
    device: str
    device_budget: str
    host_budget: str
    peers: tuple
    more: tuple = ()  # options of every engine
    castor: tuple = ()  # of Castor alone

    def in_python(self):
        """Models that `castor train` does not have train under `import castor`."""
        return not self.model.startswith("gpt:")

    def job(self):
        """The options of every engine, as `castor train` spells them. Cases with one job share their peers' runs, which have no budget."""
        sizes = ["--model", self.model, "--batch", str(self.batch), "--seq", str(self.seq)]
        return (*sizes, "--device", self.device, "--recompute", *self.more)


# Host budgets are no larger than FSDP2's use of the host for the same job (32 and 79 GiB on one H200, 2026-11-21).
CASES = {
    case.name: case
    for case in (
        Case("tiny", TINY, 2, 32, "cpu", "8MiB", "64MiB", ("torch", "fsdp2")),
        Case("b8-8g", SMALL, 8, 1024, "cuda", "8GiB", "32GiB", PEERS),
        Case("b8-16g", SMALL, 8, 1024, "cuda", "16GiB", "32GiB", PEERS),
        Case("b32-16g", SMALL, 32, 1024, "cuda", "16GiB", "32GiB", PEERS),
        Case("b32-28g", SMALL, 32, 1024, "cuda", "28GiB", "32GiB", PEERS),
        Case("3.9b", LARGE, 16, 1024, "cuda", "24GiB", "72GiB", PEERS),
        Case("tiny-qwen", "qwen2:tiny", 2, 32, "cpu", "8MiB", "64MiB", ("torch", "fsdp2")),
        Case("qwen-1.5b", "qwen2:1.5b", 4, 2048, "cuda", "20GiB", "28GiB", ("torch", "fsdp2")),
        Case("qwen-1.5b-compiled", "qwen2:1.5b", 4, 2048, "cuda", "20GiB", "28GiB", ("torch",), ("--compile",)),
        Case("qwen-1.5b-resident", "qwen2:1.5b", 4, 2048, "cuda", "", "", ("plain",), (), ("--plugin", "none")),
        Case("qwen-1.5b-bits", "qwen2:1.5b", 4, 2048, "cuda", "20GiB", "28GiB", ("plain",), ("--deterministic",)),
        Case("qwen-3b", "qwen2:3b", 4, 2048, "cuda", "21GiB", "58GiB", ("fsdp2",)),
        Case("qwen-7b", "qwen2:7b", 4, 2048, "cuda", "40GiB", "100GiB", ()),
        Case("qwen-7b-16m", "qwen2:7b", 4, 2048, "cuda", "72GiB", "100GiB", ("passes",), ("--accumulate", "16")),
        Case("qwen-7b-nvme", "qwen2:7b", 4, 2048, "cuda", "24GiB", "48GiB", (), (), ("--set", "nvme_budget=45GiB", "--nvme", ".")),
        Case("qwen-7b-lora", "qwen2:7b", 2, 2048, "cuda", "14GiB", "40GiB", ("torch",), ("--lora", "16")),
        Case("qwen-7b-qlora", "qwen2:7b", 2, 2048, "cuda", "11GiB", "40GiB", ("torch",), ("--lora", "16", "--bits", "4")),
        Case("3.9b-16g", LARGE, 16, 1024, "cuda", "16.5GiB", "72GiB", PEERS),
    )
}
