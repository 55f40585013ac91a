# SPDX-License-Identifier: Apache-2.0
"""The cases of the comparison: a training job each, Castor's budgets for it, and the engines to compare with."""
from dataclasses import dataclass

SMALL = "gpt:layers=48,hidden=1600,heads=25,vocab=50304,tied=0"  # 1,638,172,800 parameters
LARGE = "gpt:layers=32,hidden=3072,heads=24,vocab=50304,tied=0"  # 3,937,376,256
TINY = "gpt:layers=2,hidden=64,heads=4,vocab=512,tied=0"
PEERS = ("torch", "fsdp2", "deepspeed")


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

    def job(self):
        """The options of every engine, as `castor train` spells them. Cases with one job share their peers' runs, which have no budget."""
        sizes = ["--model", self.model, "--batch", str(self.batch), "--seq", str(self.seq)]
        return (*sizes, "--device", self.device, "--recompute")


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
        Case("3.9b-16g", LARGE, 16, 1024, "cuda", "16.5GiB", "72GiB", PEERS),
    )
}
