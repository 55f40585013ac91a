# SPDX-License-Identifier: Apache-2.0
"""castor.utils and castor.logging."""

import contextlib
import io
import json
import logging
import pathlib
import random
import tempfile
import unittest
from unittest import mock

import torch

import castor
from castor.logging import disable_existing_loggers, get_dist_logger
from castor.utils import MultiTimer, get_current_device, get_dataloader, set_seed
from castor.utils._data import EpochSampler
from pairs import backward_of, boosted


class Devices(unittest.TestCase):
    def test_current(self):
        expected = "cuda:0" if torch.cuda.is_available() else "cpu"
        self.assertEqual(get_current_device(), torch.device(expected))

    def test_seeds(self):
        def drawn():
            numbers = [torch.rand(()).item(), random.random()]
            with contextlib.suppress(ImportError):
                import numpy

                numbers.append(numpy.random.rand())
            return numbers

        set_seed(5)
        first = drawn()
        self.assertNotEqual(drawn(), first)
        set_seed(5)
        self.assertEqual(drawn(), first)
        torch.manual_seed(5)
        self.assertEqual(torch.rand(()).item(), first[0])
        set_seed(2**40)


class Timers(unittest.TestCase):
    def setUp(self):
        self.time = 10.0
        patched = mock.patch("castor.utils._timer.now", lambda: self.time)
        patched.start()
        self.addCleanup(patched.stop)
        self.timer = MultiTimer()

    def interval(self, name, seconds, **options):
        self.timer.start(name)
        self.time += seconds
        return self.timer.stop(name, **options)

    def test_intervals_and_history(self):
        self.assertEqual(self.interval("step", 2.0, keep_in_history=True), 2.0)
        self.assertEqual(self.interval("step", 3.0, keep_in_history=True), 3.0)
        self.assertEqual(self.interval("step", 5.0), 5.0)
        step = self.timer.get_timer("step")
        self.assertEqual((step.get_elapsed_time(), step.get_history_sum(), step.get_history_mean()), (5.0, 5.0, 2.5))
        self.interval("other", 1.0)
        self.assertEqual([name for name, _ in self.timer], ["step", "other"])
        self.timer.reset("step")
        self.assertFalse(step.has_history)
        self.assertEqual(self.timer.get_timer("other").get_elapsed_time(), 1.0)
        self.timer.reset()
        self.assertEqual(self.timer.get_timer("other").get_elapsed_time(), 0.0)

    def test_off(self):
        self.timer.set_status(False)
        self.assertFalse(self.timer.is_on())
        self.assertIsNone(self.interval("step", 2.0))
        self.assertEqual(list(self.timer), [])

    def test_wrong_order_is_refused(self):
        self.timer.start("forward")
        with self.assertRaisesRegex(castor.Error, "did you mean forward"):
            self.timer.stop("foward")
        with self.assertRaisesRegex(castor.Error, "runs"):
            self.timer.get_timer("forward").get_elapsed_time()
        self.timer.stop("forward")
        with self.assertRaisesRegex(castor.Error, "before it was started"):
            self.timer.stop("forward")


class RandomItems(torch.utils.data.Dataset):
    def __len__(self):
        return 6

    def __getitem__(self, index):
        return torch.rand(())


class Countdown(torch.utils.data.IterableDataset):
    def __iter__(self):
        return iter((3, 2, 1))


class Loaders(unittest.TestCase):
    @staticmethod
    def epochs(loader, n=3):
        return [torch.cat(list(loader)).tolist() for _ in range(n)]

    def test_order_follows_from_the_seed_and_changes_with_each_pass(self):
        data = torch.arange(20)
        self.assertEqual(self.epochs(get_dataloader(data, batch_size=3), 2), [list(range(20))] * 2)
        first = self.epochs(get_dataloader(data, shuffle=True, batch_size=3))
        torch.rand(7)
        self.assertEqual(self.epochs(get_dataloader(data, shuffle=True, batch_size=3)), first)
        self.assertEqual([sorted(epoch) for epoch in first], [list(range(20))] * 3)
        self.assertEqual(len({tuple(epoch) for epoch in first}), 3)
        other = self.epochs(get_dataloader(data, shuffle=True, seed=7, batch_size=3))
        self.assertNotEqual(other, first)
        loader = get_dataloader(data, shuffle=True, batch_size=3)
        loader.sampler.set_epoch(2)
        self.assertEqual(self.epochs(loader, 1), first[2:])

    def test_batches(self):
        sizes = [len(batch) for batch in get_dataloader(torch.arange(20), batch_size=8, drop_last=True)]
        self.assertEqual(sizes, [8, 8])

    def test_a_caller_may_divide_the_data(self):
        data = torch.arange(6)
        self.assertEqual(torch.cat(list(get_dataloader(data, sampler=[5, 3], batch_size=2))).tolist(), [5, 3])
        self.assertEqual(torch.cat(list(get_dataloader(data, batch_sampler=[[4], [1, 2]]))).tolist(), [4, 1, 2])
        self.assertEqual(torch.cat(list(get_dataloader(Countdown(), batch_size=2))).tolist(), [3, 2, 1])

    def test_workers_have_numbers_of_their_own_that_can_be_repeated(self):
        items = [torch.cat(list(get_dataloader(RandomItems(), num_workers=2, batch_size=3))).tolist() for _ in range(2)]
        self.assertEqual(items[0], items[1])
        self.assertEqual(len(set(items[0])), 6)

    def test_parts_of_ranks(self):
        parts = [list(EpochSampler(range(10), 2, part, shuffle=True, seed=3)) for part in range(2)]
        self.assertEqual(sorted(parts[0] + parts[1]), list(range(10)))


class Loggers(unittest.TestCase):
    def setUp(self):
        self.logger = get_dist_logger("castor.test")
        self.addCleanup(self.logger.logger.handlers.clear)
        silent = logging.NullHandler()
        logging.root.addHandler(silent)
        self.addCleanup(logging.root.removeHandler, silent)

    def test_messages_of_chosen_ranks(self):
        with self.assertLogs("castor.test", "DEBUG") as seen:
            self.logger.info("100% of rank 0", ranks=[0])
            self.logger.info("rank 1", ranks=[1])
            self.logger.warning("all")
            self.logger.error("also all")
        messages = [(record.levelname, record.getMessage(), record.filename) for record in seen.records]
        here = pathlib.Path(__file__).name
        self.assertEqual(messages, [("INFO", "100% of rank 0", here), ("WARNING", "all", here), ("ERROR", "also all", here)])

    def test_one_name_is_one_logger(self):
        again = get_dist_logger("castor.test")
        self.assertIs(again.logger, logging.getLogger("castor.test"))
        self.assertEqual(len(again.logger.handlers), 1)

    def test_shows_what_no_logging_of_the_program_takes(self):
        output = io.StringIO()
        self.logger.logger.handlers[0].setStream(output)
        root = logging.root
        before, root.handlers = root.handlers, []
        self.addCleanup(setattr, root, "handlers", before)
        self.logger.info("shown")
        root.addHandler(logging.NullHandler())
        self.logger.info("with the program's handler alone")
        self.assertEqual(output.getvalue(), "castor.test - INFO: shown\n")

    def test_files(self):
        with tempfile.TemporaryDirectory(prefix="castor_python_") as folder:
            self.logger.log_to_file(folder, level="WARNING", suffix="run")
            self.logger.info("not this")
            self.logger.warning("this")
            self.logger.logger.handlers[-1].close()
            self.assertEqual((pathlib.Path(folder) / "rank_0_run.log").read_text(), "castor.test - WARNING: this\n")

    def test_levels(self):
        self.logger.set_level("ERROR")
        self.assertEqual(self.logger.logger.level, logging.ERROR)
        with self.assertRaisesRegex(castor.Error, "did you mean WARNING"):
            self.logger.set_level("warnings")
        self.logger.set_level("INFO")

    def test_others_can_be_silenced(self):
        mine, other, third = (logging.getLogger(f"castor_test_{name}") for name in ("mine", "other", "third"))
        levels = {
            name: logger.level
            for name, logger in logging.root.manager.loggerDict.items()
            if isinstance(logger, logging.Logger)
        }
        for name, level in levels.items():
            self.addCleanup(logging.getLogger(name).setLevel, level)
        for logger in (mine, other, third):
            logger.setLevel(logging.DEBUG)
        disable_existing_loggers(include=["castor_test_other"])
        self.assertEqual((mine.level, other.level, third.level), (logging.DEBUG, logging.WARNING, logging.DEBUG))
        disable_existing_loggers(exclude=["castor_test_mine"])
        self.assertEqual((mine.level, third.level), (logging.DEBUG, logging.WARNING))
