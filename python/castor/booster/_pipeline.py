# SPDX-License-Identifier: Apache-2.0
"""A batch in micro-batches, one after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn
from torch.utils._pytree import tree_flatten, tree_leaves, tree_map, tree_unflatten

from castor._errors import Error


def run_micro_batches(
    batch: Any,
    model: nn.Module,
    criterion: Callable[[Any, Any], torch.Tensor],
    optimizer: torch.optim.Optimizer | None,
    sizes: tuple[int | None, int | None],
    keep_outputs: bool,
) -> tuple[torch.Tensor, Any]:
    """The mean of the losses, and the results of the whole batch if asked for. Backward passes add up the gradient of
    the mean, unless there is no optimizer or gradients are off.

    sizes: the number of micro-batches and the size of each, as far as stated.
    """
    trains = optimizer is not None and torch.is_grad_enabled()
    device = next(model.parameters()).device
    micro_batches = list(divided(batch, *sizes, even=trains))
    loss_sum = torch.zeros((), device=device)
    results = []
    with torch.set_grad_enabled(trains):
        for inputs in micro_batches:
            inputs = tree_map(lambda leaf: leaf.to(device) if isinstance(leaf, torch.Tensor) else leaf, inputs)
            result = call(model, inputs)
            loss = criterion(result, inputs) / len(micro_batches)
            loss_sum += loss.detach().to(loss_sum.dtype)
            if keep_outputs:
                results.append(tree_map(lambda leaf: leaf.detach() if isinstance(leaf, torch.Tensor) else leaf, result))
            if trains:
                optimizer.backward(loss)
    return loss_sum, joined(results, getattr(model, "batch_size_dim", 0)) if keep_outputs else None


def divided(batch: Any, n_micro_batches: int | None, micro_batch_size: int | None, even: bool) -> Iterator[Any]:
    """Parts of the tensors of `batch` along their first dimension, which has the samples; one of size 1, and numbers, go to
    every part. `even`: all of one size."""
    tensors = [leaf for leaf in tree_leaves(batch) if isinstance(leaf, torch.Tensor) and leaf.dim()]
    if not tensors:
        raise Error("the batch has no tensor to divide into micro-batches", "usage")
    n_samples = next((tensor.shape[0] for tensor in tensors if tensor.shape[0] != 1), 1)
    size = micro_batch_size or -(-n_samples // (n_micro_batches or 1))
    n_parts = n_micro_batches or -(-n_samples // size)
    if even and size * n_parts != n_samples:
        stated = "num_microbatches" if n_micro_batches else "microbatch_size"
        raise Error(
            f"a batch of {n_samples} samples is not {n_parts} micro-batches of {size}; change {stated}, or drop the rest of "
            "the data (drop_last=True)",
            "usage",
            stated,
        )
    for tensor in tensors:
        if tensor.shape[0] not in (1, n_samples):
            why = f"the batch has {n_samples} samples, and a tensor of sizes {tuple(tensor.shape)}"
            raise Error(f"{why}, which cannot be divided among micro-batches; leave it out of the batch", "usage")
    is_divided = lambda leaf: isinstance(leaf, torch.Tensor) and leaf.dim() and leaf.shape[0] == n_samples  # noqa: E731
    for begin in range(0, n_samples, size):
        yield tree_map(lambda leaf: leaf[begin : begin + size] if is_divided(leaf) else leaf, batch)


def call(model: nn.Module, inputs: Any) -> Any:
    if isinstance(inputs, dict):
        return model(**inputs)
    return model(*inputs) if isinstance(inputs, (list, tuple)) else model(inputs)


def joined(results: list[Any], dim: int) -> Any:
    """One result of the same structure: tensors one after the other along `dim`, scalars as None, the rest in lists."""
    structure = tree_flatten(results[0])[1]
    columns = zip(*(tree_leaves(result) for result in results), strict=True)
    return tree_unflatten([joined_leaves(column, dim) for column in columns], structure)


def joined_leaves(leaves: tuple, dim: int) -> Any:
    if not isinstance(leaves[0], torch.Tensor):
        return list(leaves)
    return torch.cat(leaves, dim) if leaves[0].dim() else None
