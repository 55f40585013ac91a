# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch.utils.data import DataLoader, Dataset, DistributedSampler, IterableDataset

from castor._ranks import rank_of, world_size_of


class EpochSampler(DistributedSampler):
    """The part of a data set that belongs to one rank. Each pass shuffles anew: as DistributedSampler does after
    set_epoch(), which need not be called.

    of_workers: the generator that seeds the workers of a pass, which follow from the epoch too; or None.
    """

    of_workers: torch.Generator | None = None

    def __iter__(self) -> Iterator[int]:
        indices = super().__iter__()
        self.set_epoch(self.epoch + 1)
        return indices

    def set_epoch(self, epoch: int) -> None:
        super().set_epoch(epoch)
        if self.of_workers is not None:
            self.of_workers.manual_seed(self.seed + epoch)


def get_dataloader(
    dataset: Dataset,
    shuffle: bool = False,
    seed: int = 1024,
    add_sampler: bool = True,
    drop_last: bool = False,
    pin_memory: bool = False,
    num_workers: int = 0,
    **options: Any,
) -> DataLoader:
    """A DataLoader whose order, and random numbers in workers, follow from `seed`.

    add_sampler: each rank gets its part of the data; otherwise all get everything. options: further ones of DataLoader,
    as batch_size; a sampler of the caller, or an IterableDataset, divides the data itself.
    """
    if not options.keys() & {"sampler", "batch_sampler"} and not isinstance(dataset, IterableDataset):
        part, n_parts = (rank_of(), world_size_of()) if add_sampler else (0, 1)
        options["sampler"] = EpochSampler(dataset, n_parts, part, shuffle, seed, drop_last)
    options = {"drop_last": drop_last, "pin_memory": pin_memory, "num_workers": num_workers, **options}
    return seeded_loader(dataset, seed, **options)


def seeded_loader(dataset: Dataset, seed: int, **options: Any) -> DataLoader:
    """Workers are seeded from the generator: torch, random and NumPy, each worker with numbers of its own."""
    if "generator" not in options:
        options["generator"] = torch.Generator().manual_seed(seed)
        if isinstance(options.get("sampler"), EpochSampler):
            options["sampler"].of_workers = options["generator"]
    return DataLoader(dataset, **options)
