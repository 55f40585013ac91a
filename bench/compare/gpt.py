# SPDX-License-Identifier: Apache-2.0
"""The GPT of examples/models in plain torch.nn: the same layers, sizes, order and first weights, so that a step does the same work."""
import math

import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from castor_random import fill_normal

NORM_EPS = 1e-5
STDDEV = 0.02
ELEMENTS_AT_ONCE = 8 * 1024 * 1024  # of the loss's fp32 working copies


def vocab_of(name):
    return parse_model(name)["vocab"]


def parse_model(name):
    """The sizes in `gpt:layers=…,hidden=…,heads=…,vocab=…,tied=0`, all of them required."""
    kind, _, rest = name.partition(":")
    sizes = {key: int(value) for key, value in (part.split("=") for part in rest.split(","))}
    if kind != "gpt" or sizes.pop("tied", 1) != 0 or set(sizes) != {"layers", "hidden", "heads", "vocab"}:
        raise ValueError(f"the model of a comparison reads gpt:layers=A,hidden=B,heads=C,vocab=D,tied=0, not {name}")
    return sizes


class Block(nn.Module):
    """A pre-norm transformer block; with `recompute` it keeps only its input for backward."""

    def __init__(self, hidden, heads, recompute):
        super().__init__()
        self.heads, self.recompute = heads, recompute
        self.norm1 = nn.LayerNorm(hidden, NORM_EPS)
        self.qkv = nn.Linear(hidden, 3 * hidden)
        self.out = nn.Linear(hidden, hidden)
        self.norm2 = nn.LayerNorm(hidden, NORM_EPS)
        self.up = nn.Linear(hidden, 4 * hidden)
        self.down = nn.Linear(4 * hidden, hidden)

    def attend(self, x):
        n, seq, hidden = x.shape
        q, k, v = self.qkv(x).view(n, seq, 3, self.heads, hidden // self.heads).permute(2, 0, 3, 1, 4).unbind(0)
        seen = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(seen.transpose(1, 2).reshape(n, seq, hidden))

    def body(self, x):
        y = x + self.attend(self.norm1(x))
        return y + self.down(functional.gelu(self.up(self.norm2(y)), approximate="tanh"))

    def forward(self, x):
        # without dropout there is no random state to keep
        return checkpoint(self.body, x, use_reentrant=False, preserve_rng_state=False) if self.recompute else self.body(x)


class Gpt(nn.Module):
    """Logits of [batch, seq] tokens. `activations` is the dtype of the residual stream."""

    def __init__(self, layers, hidden, heads, vocab, positions, recompute, activations=torch.bfloat16):
        super().__init__()
        self.activations = activations
        self.tokens = nn.Embedding(vocab, hidden)
        self.positions = nn.Embedding(positions, hidden)
        self.blocks = nn.ModuleList(Block(hidden, heads, recompute) for _ in range(layers))
        self.norm = nn.LayerNorm(hidden, NORM_EPS)
        self.head = nn.Linear(hidden, vocab, bias=False)

    def forward(self, ids):
        x = (self.tokens(ids) + self.positions.weight[: ids.size(1)]).to(self.activations)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def make(name, seq, recompute):
    """The model without memory: after `place`, `initialise` gives it its first weights."""
    with torch.device("meta"):
        return Gpt(**parse_model(name), positions=seq, recompute=recompute)


def blocks(model):
    return model.blocks


def place(model, device):
    model.to_empty(device=device)


@torch.no_grad()
def initialise(model, seed, device, local=lambda parameter: parameter):
    """Gives every parameter its first value in `castor train`; `local` returns an engine's storage of a parameter's values."""
    residual = STDDEV / math.sqrt(2 * len(model.blocks))
    for stream, (name, parameter) in enumerate(model.named_parameters()):
        values = local(parameter)
        if parameter.dim() == 2:
            fill_normal(values, residual if name.endswith(("out.weight", "down.weight")) else STDDEV, seed, stream, device)
        else:
            values.fill_(1.0 if name.endswith("weight") else 0.0)


class SlicedCrossEntropy(torch.autograd.Function):
    """The mean loss in fp32, a few rows at a time: beside the logits only their gradient is ever complete, as in Castor's models."""

    @staticmethod
    def forward(context, logits, target):
        losses = torch.empty(logits.size(0), device=logits.device)
        log_sums = torch.empty_like(losses)
        rows = max(1, ELEMENTS_AT_ONCE // logits.size(1))
        for i in range(0, logits.size(0), rows):
            part = logits[i : i + rows].float()
            log_sums[i : i + rows] = part.logsumexp(1)
            losses[i : i + rows] = log_sums[i : i + rows] - part.gather(1, target[i : i + rows, None]).squeeze(1)
        context.save_for_backward(logits, target, log_sums)
        return losses.mean()

    @staticmethod
    def backward(context, scale):
        logits, target, log_sums = context.saved_tensors
        grad = torch.empty_like(logits)
        classes = torch.arange(logits.size(1), device=logits.device)
        scale = scale / logits.size(0)
        rows = max(1, ELEMENTS_AT_ONCE // logits.size(1))
        for i in range(0, logits.size(0), rows):
            part = logits[i : i + rows].float().sub_(log_sums[i : i + rows, None]).exp_()
            grad[i : i + rows] = part.sub_(classes.eq(target[i : i + rows, None]).float()).mul_(scale)
        return grad, None


def loss_of(model, ids, target, kind):
    """The mean cross entropy: `sliced` as Castor's models compute it, or `torch`'s own over fp32 copies of all logits."""
    flat = model(ids).flatten(0, 1)
    return SlicedCrossEntropy.apply(flat, target.flatten()) if kind == "sliced" else functional.cross_entropy(flat.float(), target.flatten())
