# SPDX-License-Identifier: Apache-2.0
"""castor.launch, and what depends on the rank: on one rank in this process, and on two that run rank_program.py."""

import contextlib
import io
import json
import logging
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import unittest
import warnings
from unittest import mock

import torch
import torch.distributed as dist

import castor
from castor._launch import backend_for_devices, set_device
from castor.booster.plugin import HybridParallelPlugin
from castor.cluster import DistCoordinator, ProcessGroupMesh


def free_port():
    with socket.socket() as listening:
        listening.bind(("localhost", 0))
        return listening.getsockname()[1]


def environment(**variables):
    return mock.patch.dict(os.environ, {name: str(value) for name, value in variables.items()})


TORCHRUN = {"RANK": 0, "LOCAL_RANK": 0, "WORLD_SIZE": 1, "MASTER_ADDR": "localhost"}


class OneRank(unittest.TestCase):
    def setUp(self):
        unchanged = mock.patch.dict(os.environ)
        unchanged.start()
        self.addCleanup(unchanged.stop)
        for name in (*TORCHRUN, "MASTER_PORT", "SLURM_LOCALID", "OMPI_COMM_WORLD_LOCAL_RANK"):
            os.environ.pop(name, None)

    def tearDown(self):
        if dist.is_initialized():
            dist.destroy_process_group()

    def assert_launched(self):
        self.assertEqual((dist.get_rank(), dist.get_world_size()), (0, 1))
        value = torch.ones(1)
        dist.all_reduce(value)
        self.assertEqual(value.item(), 1)

    def test_launch_joins_and_seeds(self):
        castor.launch(0, 1, "localhost", free_port(), seed=11, verbose=False)
        drawn = torch.rand(3)
        torch.manual_seed(11)
        self.assertTrue(torch.equal(torch.rand(3), drawn))
        self.assert_launched()
        if not torch.cuda.is_available():
            self.assertEqual(dist.get_backend(), "gloo")

    def test_a_second_launch_is_harmless_or_refused(self):
        castor.launch(0, 1, "localhost", free_port(), verbose=False)
        group = dist.group.WORLD
        castor.launch(0, 1, "localhost", free_port(), verbose=False)
        self.assertIs(dist.group.WORLD, group)
        with self.assertRaisesRegex(castor.Error, "rank 0 of 1 already, so it cannot become 1 of 2"):
            castor.launch(1, 2, "localhost", free_port())

    def test_verbose_says_how_many_ranks(self):
        silent = logging.NullHandler()
        logging.root.addHandler(silent)
        self.addCleanup(logging.root.removeHandler, silent)
        with self.assertLogs("castor", logging.INFO) as seen:
            castor.launch(0, 1, "localhost", free_port())
        self.assertRegex(seen.output[0], "world size 1, backend ")

    def test_ranks_that_cannot_be(self):
        for rank, world_size in ((1, 1), (-1, 2), (0, 0)):
            with self.assertRaisesRegex(castor.Error, f"rank is {rank} and world_size {world_size}"):
                castor.launch(rank, world_size, "localhost", 1)

    def test_from_torch(self):
        with environment(**TORCHRUN, MASTER_PORT=free_port()):
            castor.launch_from_torch(verbose=False)
        self.assert_launched()

    def test_from_torch_takes_the_config_of_older_scripts(self):
        with environment(**TORCHRUN, MASTER_PORT=free_port()):
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                castor.launch_from_torch({}, verbose=False)
            with self.assertWarnsRegex(UserWarning, "config=…. has no effect"):
                castor.launch_from_torch({"fp16": True}, verbose=False)
        self.assert_launched()

    def test_from_slurm(self):
        with environment(SLURM_PROCID=0, SLURM_NPROCS=1, SLURM_LOCALID=0):
            castor.launch_from_slurm("localhost", free_port(), verbose=False)
        self.assert_launched()

    def test_from_openmpi(self):
        with environment(OMPI_COMM_WORLD_RANK=0, OMPI_COMM_WORLD_SIZE=1, OMPI_COMM_WORLD_LOCAL_RANK=0):
            castor.launch_from_openmpi("localhost", free_port(), verbose=False)
        self.assert_launched()

    def test_missing_variables_are_named_with_the_command(self):
        with environment(RANK=0, WORLD_SIZE=1), self.assertRaises(castor.Error) as raised:
            castor.launch_from_torch()
        message = str(raised.exception)
        self.assertRegex(message, "LOCAL_RANK, MASTER_ADDR, MASTER_PORT are missing; start the script with: torchrun ")
        self.assertNotIn(" RANK", message)
        for call, variable, command in (
            (castor.launch_from_slurm, "SLURM_PROCID", "srun "),
            (castor.launch_from_openmpi, "OMPI_COMM_WORLD_RANK", "mpirun "),
        ):
            with self.assertRaisesRegex(castor.Error, f"{variable}.*start the script with: {command}"):
                call("localhost", 1)

    def test_variables_that_are_no_numbers_are_named(self):
        with environment(**{**TORCHRUN, "RANK": "zero"}, MASTER_PORT=1), self.assertRaises(castor.Error) as raised:
            castor.launch_from_torch()
        self.assertIn("RANK is 'zero'", str(raised.exception))

    def test_the_backend_follows_the_device(self):
        for has_gpu, expected in ((True, "cpu:gloo,cuda:nccl"), (False, "gloo")):
            with mock.patch("torch.cuda.is_available", return_value=has_gpu):
                self.assertEqual(backend_for_devices("nccl"), expected)
                self.assertEqual(backend_for_devices("gloo"), "gloo")

    def test_the_gpu_is_that_of_the_local_rank(self):
        with (
            mock.patch("torch.cuda.is_available", return_value=True),
            mock.patch("torch.cuda.device_count", return_value=2),
            mock.patch("torch.cuda.set_device") as chosen,
        ):
            set_device(rank=5, local_rank=None)
            set_device(rank=4, local_rank=0)
            with self.assertRaisesRegex(castor.Error, "rank 7 has local rank 3, and this host has 2 GPUs"):
                set_device(rank=7, local_rank=3)
        self.assertEqual([call.args for call in chosen.call_args_list], [(1,), (0,)])

    def test_groups_of_a_plugin(self):
        plugin = HybridParallelPlugin(tp_size=1, pp_size=1)
        self.assertIsNone(plugin.dp_group)
        castor.launch(0, 1, "localhost", free_port(), verbose=False)
        for group in (plugin.dp_group, plugin.pp_group, plugin.tp_group, plugin.sp_group):
            self.assertEqual(dist.get_process_group_ranks(group), [0])


class Coordinator(unittest.TestCase):
    def test_without_launch(self):
        coordinator = DistCoordinator()
        self.assertEqual((coordinator.rank, coordinator.world_size, coordinator.local_rank), (0, 1, 0))
        self.assertTrue(coordinator.is_master() and coordinator.is_node_master() and coordinator.is_last_process())
        coordinator.block_all()
        with coordinator.priority_execution():
            entered = True
        self.assertTrue(entered)
        self.assertEqual(coordinator.on_master_only()(lambda value: value + 1)(2), 3)
        with contextlib.redirect_stdout(io.StringIO()) as output:
            coordinator.print_on_master("master")
            coordinator.print_on_node_master("node master")
        self.assertEqual(output.getvalue(), "master\nnode master\n")
        coordinator.destroy()

    def test_a_local_rank_that_nothing_states(self):
        with mock.patch("castor._ranks.world_size_of", return_value=2), mock.patch.dict(os.environ):
            os.environ.pop("LOCAL_RANK", None)
            with self.assertRaisesRegex(castor.Error, "start the script with torchrun"):
                DistCoordinator().is_node_master()


class Meshes(unittest.TestCase):
    def test_need_launch(self):
        with self.assertRaisesRegex(castor.Error, "call castor.launch"):
            ProcessGroupMesh(1)

    def test_places(self):
        shape = (2, 3, 4)
        for rank, place in ((0, (0, 0, 0)), (5, (0, 1, 1)), (23, (1, 2, 3))):
            self.assertEqual(ProcessGroupMesh.unravel(rank, shape), place)
            self.assertEqual(ProcessGroupMesh.ravel(place, shape), rank)
        self.assertEqual(ProcessGroupMesh.ravel((0, -1, 4), shape, "wrap"), 8)
        self.assertEqual(ProcessGroupMesh.ravel((0, -1, 4), shape, "clip"), 3)
        with self.assertRaisesRegex(castor.Error, "index 4 is outside of an axis of 4"):
            ProcessGroupMesh.ravel((0, 0, 4), shape)


class TwoRanks(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        with tempfile.TemporaryDirectory(prefix="castor_python_") as folder:
            files = [pathlib.Path(folder) / f"rank_{rank}.json" for rank in range(2)]
            port = free_port()
            programs = [cls.start(rank, port, file) for rank, file in enumerate(files)]
            try:
                cls.outputs = [program.communicate(timeout=60)[0] for program in programs]
            finally:
                for program in programs:
                    program.kill()
                    program.wait()
            if any(program.returncode for program in programs):
                raise AssertionError("\n".join(cls.outputs))
            cls.facts = [json.loads(file.read_text()) for file in files]

    @staticmethod
    def start(rank, port, file):
        """Without a GPU, of which each rank would need one."""
        place = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": 2, "MASTER_ADDR": "localhost", "MASTER_PORT": port}
        return subprocess.Popen(
            [sys.executable, str(pathlib.Path(__file__).with_name("rank_program.py")), str(file)],
            env={**os.environ, "CUDA_VISIBLE_DEVICES": "", **{name: str(value) for name, value in place.items()}},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def of(self, part, fact):
        return [facts[part][fact] for facts in self.facts]

    def test_seeds_are_the_same(self):
        torch.manual_seed(1024)
        self.assertEqual([facts["seeded"] for facts in self.facts], [torch.rand(1).item()] * 2)

    def test_coordinator(self):
        self.assertEqual(self.of("coordinator", "place"), [[0, 2, 0], [1, 2, 1]])
        self.assertEqual(self.of("coordinator", "first and last"), [[True, True, False], [False, False, True]])
        self.assertEqual(self.of("coordinator", "on_master_only"), [[7, [7]], [None, []]])
        self.assertIn("master 0\nnode master 0\n", self.outputs[0])
        self.assertNotIn("master", self.outputs[1])

    def test_waiting(self):
        self.assertEqual(self.of("coordinator", "priority"), [[True, True]] * 2)
        self.assertEqual(self.of("coordinator", "after a failure"), [True, True])
        self.assertEqual(self.of("coordinator", "barrier"), [True, True])

    def test_mesh(self):
        self.assertEqual(self.of("mesh", "coordinate"), [[0, 0], [0, 1]])
        self.assertEqual(self.of("mesh", "sum"), [3, 3])
        self.assertEqual(self.of("mesh", "ranks"), [[[0, 1], [0], [0, 1]], [[0, 1], [1], [0, 1]]])
        self.assertEqual(self.of("mesh", "first"), [[0], None])
        for message in self.of("mesh", "wrong size"):
            self.assertIn("a mesh of 3 has 3 ranks, and there are 2", message)

    def test_grids_of_plugins(self):
        self.assertEqual(self.of("plugins", "sizes"), [[[2, 1, 1], [1, 2, 1], [1, 1, 2]]] * 2)
        for rank, groups in enumerate(self.of("plugins", "groups")):
            both, alone = [0, 1], [rank]
            self.assertEqual(groups, [[both, alone, alone], [alone, both, alone], [alone, alone, both]])
        self.assertEqual(self.of("plugins", "stages"), [[2, 0, True, False], [2, 1, False, True]])

    def test_parts_of_the_data(self):
        self.assertEqual(self.of("plugins", "data"), [[[0, 2, 4, 6], [*range(8)]], [[1, 3, 5, 7], [*range(8)]]])
        self.assertEqual(self.of("plugins", "loader"), [[0, 2, 4, 6], [1, 3, 5, 7]])
        first, second = self.of("plugins", "shuffled")
        self.assertEqual(sorted(first + second), [*range(8)])

    def test_too_many_ranks_are_refused(self):
        for message in self.of("plugins", "too many"):
            self.assertIn("HybridParallelPlugin(tp_size=3) takes 3 ranks or a multiple, and there are 2", message)
        for message in self.of("plugins", "extra"):
            self.assertIn("GeminiPlugin(extra_dp_size=4) takes 4 ranks", message)

    def test_training_is_refused(self):
        for facts in self.facts:
            self.assertIn("there are 2 ranks, and Castor trains on one so far", facts["training"])

    def test_castor_imports_little_at_once(self):
        for name in ("castor.booster", "castor._launch", "castor.nn", "castor.utils", "castor.cluster"):
            self.assertNotIn(name, self.facts[0]["at once"])
