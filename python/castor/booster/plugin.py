# SPDX-License-Identifier: Apache-2.0
"""The strategies: where parameters, gradients and optimizer states lie."""

from __future__ import annotations

from typing import Any


class Plugin:
    """A strategy of the core by its name, and the core's options for it."""

    name: str

    def __init__(self, **options: Any):
        self.options = {option: text_of(value) for option, value in options.items() if value is not None}


class TorchDDPPlugin(Plugin):
    """Everything stays on the model's device."""

    name = "gemini"


class GeminiPlugin(Plugin):
    """Everything moves between device, host and NVMe under budgets.

    device_budget, host_budget: bytes, or text as '8GiB'; None: no limit. nvme: folders of the NVMe tier. Further options:
    those that `castor plugins list -v` explains.
    """

    name = "gemini"

    def __init__(
        self,
        placement_policy: str = "auto",
        device_budget: int | str | None = None,
        host_budget: int | str | None = None,
        nvme: list[str] | str | None = None,
        nvme_offload_fraction: float | None = None,
        **options: Any,
    ):
        super().__init__(
            placement_policy=placement_policy,
            device_budget=device_budget,
            host_budget=host_budget,
            nvme=nvme,
            nvme_offload_fraction=nvme_offload_fraction,
            **options,
        )


def text_of(value: Any) -> str:
    """An option as the core reads it: a comma within an element of a list is written with a backslash."""
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, (list, tuple)):
        return ",".join(str(item).replace("\\", "\\\\").replace(",", "\\,") for item in value)
    return str(value)
