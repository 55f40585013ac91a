# SPDX-License-Identifier: Apache-2.0
"""The numbers that `castor train` draws, drawn by torch: the same tokens, and first weights equal except for occasional last bits.

Every engine of the comparison thus trains the same model on the same data, so that their losses can be compared.
Source of the generator: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011 (Philox-4x32, 10 rounds).
"""
import math

import torch

MASK32 = 0xFFFFFFFF
MASK64 = 0xFFFFFFFFFFFFFFFF
MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
WEYL = (0x9E3779B9, 0xBB67AE85)
AT_ONCE = 1 << 24  # numbers drawn at a time: eight working copies of 8 bytes each


def product(words, multiplier):
    """High and low half of 32-bit `words`, held in int64, times a 32-bit number."""
    wide = words * multiplier  # wraps, and keeps the 64 bits
    return (wide >> 32) & MASK32, wide & MASK32


def random_words(seed, stream, first_block, n_blocks, device):
    """Words 2·block and 2·block + 1 of the key for `n_blocks` blocks from `first_block` on: two int64 of 64 random bits."""
    blocks = torch.arange(first_block, first_block + n_blocks, dtype=torch.int64, device=device)
    c = [blocks & MASK32, (blocks >> 32) & MASK32, torch.full_like(blocks, stream), torch.zeros_like(blocks)]
    key = [seed & MASK32, seed >> 32]
    for _ in range(10):
        (even_high, even_low), (odd_high, odd_low) = product(c[0], MULTIPLIERS[0]), product(c[2], MULTIPLIERS[1])
        c = [odd_high ^ c[1] ^ key[0], odd_low, even_high ^ c[3] ^ key[1], even_low]
        key = [(k + w) & MASK32 for k, w in zip(key, WEYL)]
    return c[1] << 32 | c[0], c[3] << 32 | c[2]


def random_ids(shape, below, seed, device="cpu"):
    """int64 in [0, `below`), `below` at most 2**24."""
    n = math.prod(shape)
    words = torch.stack(random_words(seed, 0, 0, (n + 1) // 2, device), dim=1).flatten()[:n]
    high, low = (words >> 32) & MASK32, words & MASK32
    return (((high % below) * ((1 << 32) % below) + low) % below).view(shape)


def unit_interval(words):
    """In (0, 1): the middles of 2**52 equal intervals."""
    return (((words >> 12) & ((1 << 52) - 1)).double() + 0.5) * 2.0**-52


def fill_normal(out, stddev, seed, stream, device="cpu"):
    """Fills `out` with normal values of mean 0, rounded to its dtype, by Box and Muller in fp64; `device` draws them, if it is faster."""
    flat = out.view(-1)
    for begin in range(0, flat.numel(), AT_ONCE):
        part = flat[begin : begin + AT_ONCE]
        first, second = map(unit_interval, random_words(seed, stream, begin // 2, (part.numel() + 1) // 2, device))
        radius, angle = stddev * torch.sqrt(-2 * torch.log(first)), 2 * math.pi * second
        pairs = torch.stack((radius * torch.cos(angle), radius * torch.sin(angle)), dim=1)
        part.copy_(pairs.flatten()[: part.numel()].float())


def mix(z):
    z = (z + 0x9E3779B97F4A7C15) & MASK64
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK64
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK64
    return z ^ (z >> 31)


def batch_seed(seed, step, micro=0):
    """The seed of one micro-batch."""
    return mix(mix(mix(seed) ^ step) ^ micro)
