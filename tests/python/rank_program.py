# SPDX-License-Identifier: Apache-2.0
"""One of two ranks over Gloo: writes what it sees to the file that is its argument, for launch_cases.py."""

import datetime
import json
import pathlib
import sys

import torch
import torch.distributed as dist

import castor

# Imported with castor alone.
AT_ONCE = sorted(name for name in sys.modules if name.startswith("castor."))

from castor.booster import Booster  # noqa: E402
from castor.booster.plugin import GeminiPlugin, HybridParallelPlugin, TorchDDPPlugin  # noqa: E402
from castor.cluster import DistCoordinator, ProcessGroupMesh  # noqa: E402
from castor.utils import get_dataloader  # noqa: E402

PAUSE = datetime.timedelta(seconds=0.2)  # in which a rank that does not wait would go on


def arrives(store, key, within):
    try:
        store.wait([key], within)
    except dist.DistStoreError:
        return False
    return True


def waits_for_the_executor(coordinator, store, executor):
    """Whether the other rank entered after the executor had left."""
    name = f"executor {executor}"
    if coordinator.rank != executor:
        store.set(f"{name}: other came", "1")
        with coordinator.priority_execution(executor):
            store.set(f"{name}: other is in", "1")
        return store.check([f"{name}: executor is done"])
    with coordinator.priority_execution(executor):
        other_came = arrives(store, f"{name}: other came", datetime.timedelta(seconds=30))
        entered_at_once = arrives(store, f"{name}: other is in", PAUSE)
        store.set(f"{name}: executor is done", "1")
    return other_came and not entered_at_once


def failure_of_the_executor_releases_the_other(coordinator):
    try:
        with coordinator.priority_execution():
            if coordinator.rank == 0:
                raise ValueError("in the first rank")
    except ValueError:
        return coordinator.rank == 0
    return coordinator.rank == 1


def waits_at_a_barrier(coordinator, store):
    if coordinator.rank == 1:
        store.set("barrier: 1 came", "1")
        coordinator.block_all()
        return store.check(["barrier: 0 came"])
    arrives(store, "barrier: 1 came", datetime.timedelta(seconds=30))
    passed = arrives(store, "barrier: 1 passed", PAUSE)
    store.set("barrier: 0 came", "1")
    coordinator.block_all()
    return not passed


def coordinator_facts(store):
    coordinator = DistCoordinator()
    calls = []

    @coordinator.on_master_only()
    def on_master(value):
        calls.append(value)
        return value

    coordinator.print_on_master(f"master {coordinator.rank}")
    coordinator.print_on_node_master(f"node master {coordinator.rank}")
    return {
        "place": [coordinator.rank, coordinator.world_size, coordinator.local_rank],
        "first and last": [coordinator.is_master(), coordinator.is_node_master(), coordinator.is_last_process()],
        "on_master_only": [on_master(7), calls],
        "priority": [waits_for_the_executor(coordinator, store, executor) for executor in (0, 1)],
        "after a failure": failure_of_the_executor_releases_the_other(coordinator),
        "barrier": waits_at_a_barrier(coordinator, store),
    }


def mesh_facts():
    mesh = ProcessGroupMesh(1, 2)
    across = mesh.get_group_along_axis(1)
    total = torch.ones(1) * (1 + dist.get_rank())
    dist.all_reduce(total, group=across)
    both = mesh.create_group_along_axis([0, 1])
    first = mesh.create_group_along_axis(1, [0])
    return {
        "coordinate": mesh.coordinate(),
        "sum": total.item(),
        "ranks": [mesh.get_ranks_in_group(group) for group in (across, mesh.get_group_along_axis(0), both)],
        "first": first and mesh.get_ranks_in_group(first),
        "wrong size": message_of(lambda: ProcessGroupMesh(3)),
    }


def plugin_facts():
    ddp, pipeline, tensor = TorchDDPPlugin(), HybridParallelPlugin(1, 2), HybridParallelPlugin(2, 1)
    ranks = dist.get_process_group_ranks
    stages = pipeline.stage_manager
    return {
        "sizes": [[each.dp_size, each.pp_size, each.tp_size] for each in (ddp, pipeline, tensor)],
        "groups": [[ranks(each.dp_group), ranks(each.pp_group), ranks(each.tp_group)] for each in (ddp, pipeline, tensor)],
        "stages": [stages.num_stages, stages.stage, stages.is_first_stage(), stages.is_last_stage()],
        "data": [torch.cat(list(each.prepare_dataloader(range(8), 2))).tolist() for each in (ddp, pipeline)],
        "shuffled": torch.cat(list(ddp.prepare_dataloader(range(8), 2, shuffle=True, seed=3))).tolist(),
        "loader": torch.cat(list(get_dataloader(range(8), batch_size=4))).tolist(),
        "too many": message_of(lambda: HybridParallelPlugin(tp_size=3, pp_size=1)),
        "extra": message_of(lambda: GeminiPlugin(extra_dp_size=4)),
    }


def message_of(call):
    try:
        call()
    except castor.Error as error:
        return str(error)
    return None


def training():
    model = torch.nn.Linear(2, 2)
    Booster().boost(model, torch.optim.SGD(model.parameters()))


def main():
    castor.launch_from_torch(verbose=False)
    store = dist.distributed_c10d._get_default_store()
    facts = {
        "at once": AT_ONCE,
        "seeded": torch.rand(1).item(),
        "coordinator": coordinator_facts(store),
        "mesh": mesh_facts(),
        "plugins": plugin_facts(),
        "training": message_of(training),
    }
    pathlib.Path(sys.argv[1]).write_text(json.dumps(facts))
    DistCoordinator().block_all()
    DistCoordinator().destroy()


if __name__ == "__main__":
    main()
