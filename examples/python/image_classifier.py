#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A ResNet or a ViT with any plugin: accumulation, clipping, mixed precision, a schedule, checkpoints.

    python examples/python/image_classifier.py --plugin gemini --model vit --checkpoint run
    python examples/python/image_classifier.py --plugin gemini --model vit --checkpoint run --epochs 3 --resume

The pictures are drawn: noise with one bright quarter, which is the class. Needs torchvision for --model resnet, transformers
for --model vit.
"""

import argparse
from pathlib import Path

import torch
from torch import nn
from torch.utils.data import TensorDataset

from castor.booster import Booster
from castor.booster.plugin import GeminiPlugin, HybridParallelPlugin, LowLevelZeroPlugin, TorchDDPPlugin
from castor.cluster import DistCoordinator
from castor.nn.lr_scheduler import CosineAnnealingWarmupLR
from castor.nn.optimizer import HybridAdam
from castor.utils import get_current_device, set_seed

N_CLASSES, SIZE = 4, 32


def pictures(n: int) -> TensorDataset:
    random = torch.Generator().manual_seed(0)
    images, classes = torch.randn(n, 3, SIZE, SIZE, generator=random), torch.arange(n) % N_CLASSES
    half = SIZE // 2
    for image, number in zip(images, classes.tolist()):
        row, column = divmod(number, 2)
        image[:, row * half : (row + 1) * half, column * half : (column + 1) * half] += 1.0
    return TensorDataset(images, classes)


def model_named(name: str) -> nn.Module:
    if name == "resnet":
        import torchvision

        return torchvision.models.resnet18(num_classes=N_CLASSES)
    from transformers import ViTConfig, ViTForImageClassification

    sizes = {"hidden_size": 64, "num_hidden_layers": 4, "num_attention_heads": 4, "intermediate_size": 128}
    return ViTForImageClassification(ViTConfig(image_size=SIZE, patch_size=8, num_labels=N_CLASSES, **sizes))


def plugin_named(options: argparse.Namespace):
    common = {"precision": options.precision, "max_norm": options.max_norm}
    if options.plugin == "gemini":
        return GeminiPlugin(device_budget=options.device_budget, **common)
    if options.plugin == "low_level_zero":
        return LowLevelZeroPlugin(stage=2, cpu_offload=True, **common)
    if options.plugin == "hybrid_parallel":
        return HybridParallelPlugin(tp_size=1, pp_size=1, zero_stage=1, **common)
    return TorchDDPPlugin()


def logits_of(model: nn.Module, images: torch.Tensor) -> torch.Tensor:
    result = model(images)
    return (result if isinstance(result, torch.Tensor) else result.logits).float()


def accuracy(model: nn.Module, loader, device: torch.device) -> float:
    model.eval()
    with torch.no_grad():
        hits = [(logits_of(model, images.to(device)).argmax(-1) == classes.to(device)).float().mean() for images, classes in loader]
    model.train()
    return torch.stack(hits).mean().item()


def main() -> float:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--plugin", default="gemini", choices=("torch_ddp", "low_level_zero", "gemini", "hybrid_parallel"))
    parser.add_argument("--model", default="resnet", choices=("resnet", "vit"))
    parser.add_argument("--precision", default="bf16", choices=("bf16", "fp16", "fp32"))
    parser.add_argument("--device-budget", default="256MiB")
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--samples", type=int, default=256)
    parser.add_argument("--accumulate", type=int, default=2, help="micro-batches of a step")
    parser.add_argument("--max-norm", type=float, default=1.0)
    parser.add_argument("--checkpoint", type=Path, help="a folder, written after each epoch")
    parser.add_argument("--resume", action="store_true", help="go on from it")
    options = parser.parse_args()
    if options.resume and not options.checkpoint:
        parser.error("--resume goes on from the folder of --checkpoint")

    set_seed(0)
    coordinator, device = DistCoordinator(), get_current_device()
    plugin = plugin_named(options)
    booster = Booster(plugin=plugin, mixed_precision="bf16" if options.plugin == "torch_ddp" and options.precision == "bf16" else None)
    model = model_named(options.model)
    optimizer = HybridAdam(model.parameters(), lr=2e-3)
    loader = plugin.prepare_dataloader(pictures(options.samples), batch_size=16, shuffle=True, seed=0)
    n_steps = len(loader) // options.accumulate * options.epochs
    scheduler = CosineAnnealingWarmupLR(optimizer, n_steps, warmup_steps=n_steps // 10)
    criterion = nn.CrossEntropyLoss()
    model, optimizer, criterion, loader, scheduler = booster.boost(model, optimizer, criterion, loader, scheduler)

    first = 0
    if options.resume:
        booster.load_optimizer(optimizer, options.checkpoint / "optimizer")
        booster.load_model(model, options.checkpoint / "model")
        booster.load_lr_scheduler(scheduler, options.checkpoint / "scheduler")
        first = int((options.checkpoint / "epoch").read_text())
    if first >= options.epochs:
        coordinator.print_on_master(f"{first} epochs are done already; --epochs {first + 1} goes on")
        return accuracy(model, loader, device)
    for epoch in range(first, options.epochs):
        loader.sampler.set_epoch(epoch)
        for step, (images, classes) in enumerate(loader):
            loss = criterion(logits_of(model, images.to(device)), classes.to(device)) / options.accumulate
            booster.backward(loss, optimizer)
            if step % options.accumulate == options.accumulate - 1:
                optimizer.step()
                optimizer.zero_grad()
                scheduler.step()
        found = accuracy(model, loader, device)
        coordinator.print_on_master(f"epoch {epoch + 1}: loss {loss.item() * options.accumulate:.4f}, accuracy {found:.3f}")
        if options.checkpoint:
            booster.save_model(model, options.checkpoint / "model", shard=True)
            booster.save_optimizer(optimizer, options.checkpoint / "optimizer")
            booster.save_lr_scheduler(scheduler, options.checkpoint / "scheduler")
            if coordinator.is_master():
                (options.checkpoint / "epoch").write_text(str(epoch + 1))
    return found


if __name__ == "__main__":
    main()
