# SPDX-License-Identifier: Apache-2.0
"""castor.io.DiskOffloader against copies of the tensors in memory."""

import os
import pathlib
import random
import resource
import tempfile
import threading
import unittest

import torch

import castor
from castor.io import AsyncFileWriter, DiskOffloader, Spans, async_save
from forks import in_a_fork

DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.float8_e4m3fn, torch.int64, torch.int8, torch.bool)
DTYPES += (torch.complex64,)


def values(*sizes, dtype=torch.float32, seed=0):
    drawn = torch.randint(0, 2, sizes, generator=torch.Generator().manual_seed(seed)) if dtype == torch.bool else None
    drawn = torch.randn(sizes, generator=torch.Generator().manual_seed(seed)) * 50 if drawn is None else drawn
    return drawn.to(dtype)


def bits(tensor):
    return tensor.resolve_conj().contiguous().clone().view(-1).view(torch.uint8).tolist()


def in_threads(n_threads, run):
    threads = [threading.Thread(target=run, args=(number,)) for number in range(n_threads)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


class Offloaded(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.drive = DiskOffloader(self.folder.name)

    def memory_of(self, tensor):
        return tensor.untyped_storage().nbytes()

    def test_any_dtype_and_size(self):
        for dtype in DTYPES:
            for sizes in ((), (0,), (1,), (4096,), (3, 5, 7), (100_003,)):
                with self.subTest(dtype=dtype, sizes=sizes):
                    tensor = values(*sizes, dtype=dtype)
                    expected, whole = bits(tensor), tensor.nbytes
                    self.drive.sync_write(tensor)
                    self.assertEqual(self.memory_of(tensor), 0, "its memory is free")
                    self.drive.sync_read(tensor)
                    self.assertEqual(self.memory_of(tensor), whole)
                    self.assertEqual(bits(tensor), expected)

    def test_any_view(self):
        base = values(40, 30, 20)
        views = {
            "whole": base.view(-1),
            "transposed": base.transpose(0, 2),
            "part": base[3:7],
            "with gaps": base[:, 1::2, 3],
            "a value many times": base[0, 0, :1].expand(9),
            "other dtype": base.view(torch.int32)[5],
            "conjugate": torch.view_as_complex(base.view(40, 30, 10, 2)).conj()[2],
        }
        for name, view in views.items():
            with self.subTest(name):
                all_values, expected = base.clone(), bits(view)
                self.drive.sync_write(view)
                if self.memory_of(base):
                    (view if name != "a value many times" else view[:1]).zero_()
                self.drive.sync_read(view)
                self.assertEqual(bits(view), expected)
                self.assertTrue(torch.equal(base, all_values))

    def test_values_many_times_whose_memory_is_freed(self):
        made = torch.arange(3.0)
        for tensor in (made.clone()[None].expand(4, 3), made.clone()[:, None].expand(3, 4), torch.ones(1).expand(5)):
            expected = tensor.clone()
            for _ in range(2):
                self.drive.sync_write(tensor)
                self.assertEqual(self.memory_of(tensor), 0)
                self.drive.sync_read(tensor)
                self.assertTrue(torch.equal(tensor, expected))

    def test_a_use_on_the_drive_is_an_error(self):
        tensor, file = values(1000), pathlib.Path(self.folder.name) / "saved"
        expected = bits(tensor)
        self.drive.sync_write(tensor)
        uses = (tensor.sum, tensor.clone, tensor.tolist, tensor.numpy, lambda: tensor.fill_(1), lambda: print(tensor), lambda: torch.save(tensor, file))
        for use in uses:
            with self.assertRaisesRegex(RuntimeError, "its memory is on the drive; read it"):
                use()
        self.drive.sync_read(tensor)
        self.assertEqual(bits(tensor), expected)
        tensor.fill_(1)

    def test_threads_wait_for_one_another(self):
        failures = []

        def go_on(seed):
            tensor = values(50_000, seed=seed)
            expected = tensor.clone()
            for _ in range(20):
                self.drive.sync_write(tensor)
                self.drive.sync_read(tensor)
                if not torch.equal(tensor, expected):
                    failures.append(seed)

        in_threads(4, go_on)
        self.assertEqual(failures, [])

    def test_a_tensor_is_known_by_its_memory(self):
        """`parameter.data` is another object at each use."""
        parameter = torch.nn.Parameter(values(1000))
        expected = parameter.detach().clone()
        self.drive.sync_write(parameter.data)
        self.drive.sync_read(parameter.data)
        self.assertTrue(torch.equal(parameter.detach(), expected))

    def test_follows_a_program_of_random_calls(self):
        for seed in range(6):
            draw = random.Random(seed)
            tensors = [values(draw.choice([1, 1000, 4096, 70_000]), seed=n) for n in range(12)]
            copies = [tensor.clone() for tensor in tensors]
            away = set()
            for call in range(150):
                some = draw.sample(range(12), draw.randint(1, 4))
                written, read = [n for n in some if n not in away], [n for n in some if n in away]
                sync = draw.random() < 0.2
                if written:
                    if draw.random() < 0.5:
                        self.drive.synchronize()
                        for n in written:
                            tensors[n].copy_(values(len(copies[n]), seed=1000 + call))
                            copies[n] = tensors[n].clone()
                    (self.drive.sync_writev if sync else self.drive.async_writev)([tensors[n] for n in written])
                    away |= set(written)
                if read:
                    (self.drive.sync_readv if sync else self.drive.async_readv)([tensors[n] for n in read])
                    away -= set(read)
            self.drive.async_readv([tensors[n] for n in away])
            self.drive.synchronize()
            for tensor, copy in zip(tensors, copies):
                self.assertTrue(torch.equal(tensor, copy))

    def test_views_follow_a_program_of_random_calls(self):
        for seed in range(12):
            draw = random.Random(seed)
            base = values(60_000, seed=seed)
            model, written = base.clone(), {}
            for call in range(120):
                begin, step = draw.randrange(50_000), draw.choice((1, 1, 1, 3))
                part = slice(begin, begin + draw.choice((1, 500, 9000)), step)
                part = draw.choice(list(written.values()))[0] if written and draw.random() < 0.5 else part
                key = (part.start, part.stop, part.step)
                if key in written:
                    self.drive.async_read(base[part])
                    model[part] = written.pop(key)[1]
                else:
                    self.drive.async_write(base[part])
                    written[key] = (part, model[part].clone())
                if draw.random() < 0.1:
                    self.drive.synchronize()
                    self.assertTrue(torch.equal(base, model))
                    base.copy_(values(60_000, seed=1000 + call))
                    model.copy_(base)
            self.drive.synchronize()
            self.assertTrue(torch.equal(base, model))

    def test_calls_wait_for_those_that_have_the_same_bytes(self):
        base, called = values(1000), []
        for name, part in (("first", slice(0, 100)), ("second", slice(100, 200)), ("third", slice(300, 400))):
            self.drive.async_write(base[part], lambda name=name: called.append(name))
        self.assertEqual(called, [])
        self.drive.async_write(base[200:300])
        self.assertEqual(called, [])
        self.drive.async_write(base[199:201])
        self.assertEqual(called, ["first", "second", "third"])

    def test_spans_are_those_of_sets_of_bytes(self):
        base = torch.zeros(60, dtype=torch.int16)
        for seed in range(200):
            draw, spans, has = random.Random(seed), Spans(), set()
            for _ in range(20):
                begin = draw.randrange(60)
                part = base[begin : begin + draw.randrange(8)]
                its = set(range(2 * begin, 2 * begin + part.nbytes))
                self.assertEqual(spans.meet(part), bool(has & its))
                if draw.random() < 0.5:
                    spans.add(part)
                    has |= its

    def test_a_view_of_all_is_its_whole(self):
        for name, view in (
            ("transposed", lambda whole: whole.t()),
            ("other sizes", lambda whole: whole[None]),
            ("expanded", lambda whole: whole.expand(2, 4, 8)),
            ("other dtype", lambda whole: whole.view(torch.uint8)),
        ):
            with self.subTest(name):
                whole = values(4, 8)
                copy = whole.clone()
                self.drive.sync_write(view(whole))
                self.assertEqual(self.memory_of(whole), 0)
                self.drive.sync_read(whole)
                self.assertTrue(torch.equal(whole, copy))

    def test_conjugates_are_what_lies_in_memory(self):
        for name, write, read in (
            ("conjugate written", lambda z: z[::2].conj(), lambda z: z[::2]),
            ("conjugate read", lambda z: z[::2], lambda z: z[::2].conj()),
            ("negated read", lambda z: z.imag, lambda z: z.conj().imag),
            ("negated written", lambda z: z.conj().imag, lambda z: z.imag),
            ("all", lambda z: z.conj(), lambda z: z),
        ):
            with self.subTest(name):
                whole = values(40, dtype=torch.complex64, seed=1) * (1 + 2j)
                copy = whole.clone()
                self.drive.sync_write(write(whole))
                if self.memory_of(whole):
                    write(whole).fill_(7)
                    self.assertFalse(torch.equal(whole, copy))
                self.drive.sync_read(read(whole))
                self.assertTrue(torch.equal(whole, copy))

    def test_callbacks_may_read_and_write(self):
        for sync in (False, True):
            for _ in range(10):
                tensors, order = [values(1000, seed=n) for n in range(3)], []
                copies = [tensor.clone() for tensor in tensors]
                one, two, three = tensors
                read = self.drive.sync_read if sync else self.drive.async_read
                self.drive.async_write(one, lambda: (order.append("one"), read(two), self.drive.async_write(three)))
                self.drive.async_write(two, lambda: order.append("two"))
                self.drive.synchronize()
                self.assertEqual(order, ["one", "two"])
                self.assertTrue(torch.equal(two, copies[1]))
                self.drive.sync_write_events()
                self.assertEqual([self.memory_of(one), self.memory_of(three)], [0, 0])
                self.drive.sync_readv([one, three])
                self.assertTrue(all(map(torch.equal, tensors, copies)))

    def test_lists_may_be_generators(self):
        model = torch.nn.Linear(64, 64)
        copies = [parameter.detach().clone() for parameter in model.parameters()]
        self.drive.sync_writev(model.parameters())
        self.assertEqual([self.memory_of(parameter) for parameter in model.parameters()], [0, 0])
        self.drive.sync_readv(model.parameters())
        self.assertTrue(all(map(torch.equal, model.parameters(), copies)))

    def test_reads_wait_for_reads(self):
        tensors = [values(300_000, seed=n) for n in range(8)]
        copies = [tensor.clone() for tensor in tensors]
        self.drive.sync_writev(tensors)
        for tensor in tensors:
            self.drive.async_read(tensor)
        self.drive.sync_read_events()
        self.assertTrue(all(map(torch.equal, tensors, copies)))

    def test_callbacks_come_in_the_order_of_the_calls(self):
        one, two, called = values(10), values(10), []
        self.drive.async_write(one, lambda: called.append(("one", self.memory_of(one))))
        self.drive.async_writev([two], lambda: called.append(("two", self.memory_of(two))))
        self.assertEqual(called, [])
        self.drive.sync_write_events()
        self.assertEqual(called, [("one", 0), ("two", 0)])
        self.drive.sync_readv([two, one], lambda: called.append((two.sum().item(), one.sum().item())))
        self.assertEqual(called[2], (two.sum().item(), one.sum().item()))

    def test_a_failing_callback_leaves_the_other_calls_whole(self):
        one, base = values(1000), values(40, 30)
        gaps, expected, whole = base[:, ::2], base[:, ::2].clone(), one.clone()
        self.drive.sync_writev([one, gaps])
        gaps.zero_()
        called = []

        def fail():
            raise KeyError("callback")

        self.drive.async_read(one, fail)
        self.drive.async_read(gaps, lambda: called.append(True))
        with self.assertRaisesRegex(KeyError, "callback"):
            self.drive.sync_read_events()
        self.assertEqual(called, [True])
        self.assertTrue(torch.equal(gaps, expected))
        self.assertTrue(torch.equal(one, whole))

    def test_memory_that_is_not_torchs_stays(self):
        array = torch.arange(1000.0).numpy().copy()
        tensor = torch.from_numpy(array)
        self.drive.sync_write(tensor)
        array[:] = 0
        self.drive.sync_read(tensor)
        self.assertEqual(tensor.sum().item(), 499500)

    def test_memory_that_is_shared_stays(self):
        tensor = torch.arange(1000.0).share_memory_()
        elsewhere = tensor.detach()
        self.drive.sync_write(tensor)
        tensor.zero_()
        self.drive.sync_read(tensor)
        self.assertTrue(tensor.is_shared())
        self.assertEqual(elsewhere.sum().item(), 499500)

    def test_a_part_waits_for_its_whole(self):
        whole = torch.arange(1000.0)
        part = whole[:10]
        self.drive.sync_write(part)
        self.drive.sync_write(whole)
        with self.assertRaisesRegex(castor.Error, "as a whole first"):
            self.drive.sync_read(part)
        self.drive.sync_read(whole)
        self.drive.sync_read(part)
        self.assertEqual(whole.sum().item(), 499500)

    def test_what_is_dropped_leaves_the_drive(self):
        for n in range(300):
            self.drive.sync_write(values(4096, seed=n))
        self.assertLess(self.drive._store.allocated_bytes(), 129 * 4 * 4096)
        for n in range(12):
            self.drive.sync_write(values(4 << 20, seed=n))  # 16 MiB
        self.assertLessEqual(self.drive._store.allocated_bytes(), 81 << 20)

    def test_a_full_drive_loses_nothing(self):
        tensors = [values(600_000, seed=n) for n in range(4)]
        copies = [tensor.clone() for tensor in tensors]
        limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (3 << 20, limits[1]))
        try:
            self.drive.async_writev(tensors[:1])
            for tensor in tensors[1:]:
                self.drive.async_write(tensor)
            with self.assertRaises(castor.Error) as raised:
                self.drive.sync_write_events()
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        self.assertIn(raised.exception.kind, ("io", "does_not_fit"))
        self.assertIn(self.folder.name, str(raised.exception))
        self.assertGreater(sum(map(self.memory_of, tensors)), 0, "what was not written keeps its memory")
        for tensor, copy in zip(tensors, copies):
            if not self.memory_of(tensor):
                self.drive.sync_read(tensor)
            self.assertTrue(torch.equal(tensor, copy))
        self.drive.sync_write(tensors[0])
        self.drive.sync_read(tensors[0])
        self.assertTrue(torch.equal(tensors[0], copies[0]))

    def test_wrong_uses_are_refused(self):
        tensor = values(10)
        away = values(10)
        self.drive.sync_write(away)
        for call, message in (
            (lambda: self.drive.sync_read(tensor), "never written"),
            (lambda: self.drive.sync_write(away), "on the drive already"),
            (lambda: self.drive.sync_write(tensor.to("meta")), "not one on meta"),
            (lambda: self.drive.sync_write(tensor.to_sparse()), "dense"),
            (lambda: self.drive.sync_write([1.0]), "not list"),
            (lambda: self.drive.sync_write(values(9).unfold(0, 3, 1)), "share memory"),
            (lambda: DiskOffloader(self.folder.name, backend="urin"), "did you mean uring"),
            (lambda: DiskOffloader(self.folder.name, backend=["uring"]), "backend takes one of"),
            (lambda: DiskOffloader(self.folder.name, n_entries=0), "n_entries"),
            (lambda: DiskOffloader(self.folder.name, n_entries=True), "n_entries"),
            (lambda: self.drive.sync_writev(tensor), "a list of tensors"),
            (lambda: self.drive.async_write(tensor, 3), "callback"),
            (lambda: DiskOffloader("/proc/drive"), "/proc"),
        ):
            with self.subTest(message), self.assertRaisesRegex(castor.Error, message):
                call()
        self.drive.sync_read(away)
        with self.assertRaisesRegex(castor.Error, "read since"):
            self.drive.sync_read(away)

    def test_engines_do_the_same(self):
        for backend in ("uring", "pthread", "best"):
            drive = DiskOffloader(os.path.join(self.folder.name, "new", backend), backend=backend)
            tensor = values(100_000)
            copy = tensor.clone()
            drive.sync_write(tensor)
            drive.sync_read(tensor)
            self.assertTrue(torch.equal(tensor, copy))

    def test_a_fork_cannot_use_it(self):
        tensor = values(10)

        def use():
            try:
                self.drive.sync_write(tensor)
            except castor.Error as error:
                return str(error)

        self.assertIn("the offloader was made in another process", in_a_fork(use))
        self.drive.sync_write(tensor)


class Files(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.path = self.folder / "file"

    def names(self):
        return sorted(path.name for path in self.folder.iterdir())

    def test_have_the_bytes_that_were_written(self):
        for seed, n_entries in ((0, 1), (1, 2), (2, 16)):
            draw = random.Random(seed)
            parts = [draw.randbytes(draw.choice([0, 1, 100, 4096, 70_001, 5 << 20])) for _ in range(30)]
            with AsyncFileWriter(self.path, n_entries) as writer:
                for part in parts:
                    self.assertEqual(writer.write(part), len(part))
                    if draw.random() < 0.1:
                        writer.synchronize()
                self.assertEqual(writer.tell(), sum(map(len, parts)))
            self.assertEqual(self.path.read_bytes(), b"".join(parts))
            self.assertEqual(self.names(), ["file"])
        with AsyncFileWriter(self.path):
            pass
        self.assertEqual(self.path.read_bytes(), b"")

    def test_have_what_several_threads_have_written(self):
        with AsyncFileWriter(self.path, n_entries=2) as file:
            in_threads(4, lambda number: [file.write(bytes([number]) * 100_000) for _ in range(50)])
        written = self.path.read_bytes()
        blocks = [written[at : at + 100_000] for at in range(0, len(written), 100_000)]
        self.assertEqual(sorted(blocks), [bytes([number]) * 100_000 for number in range(4) for _ in range(50)])

    def test_are_the_old_ones_until_the_new_ones_are_whole(self):
        self.path.write_bytes(b"old")
        writer = AsyncFileWriter(self.path)
        writer.write(bytes(9 << 20))
        writer.synchronize()
        self.assertEqual(self.path.read_bytes(), b"old")
        del writer
        with self.assertRaises(ZeroDivisionError), AsyncFileWriter(self.path) as dropped:
            dropped.write(b"new")
            1 / 0  # noqa: B018
        del dropped
        self.assertEqual(self.path.read_bytes(), b"old")
        self.assertEqual(self.names(), ["file"])
        with AsyncFileWriter(self.path) as writer:
            writer.write(b"new")
        with self.assertRaisesRegex(castor.Error, "closed"):
            writer.write(b"more")
        self.assertEqual(self.path.read_bytes(), b"new")

    def test_follow_links_and_the_umask(self):
        (self.folder / "link").symlink_to(self.path)
        before = os.umask(0o027)
        try:
            with AsyncFileWriter(self.folder / "link") as writer:
                writer.write(b"new")
        finally:
            os.umask(before)
        self.assertTrue((self.folder / "link").is_symlink())
        self.assertEqual(self.path.read_bytes(), b"new")
        self.assertEqual(self.path.stat().st_mode & 0o777, 0o640)
        with self.assertRaisesRegex(castor.Error, "a folder"):
            AsyncFileWriter(self.folder)

    def test_a_full_drive_leaves_the_old_one(self):
        self.path.write_bytes(b"old")
        limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (6 << 20, limits[1]))
        try:
            with self.assertRaises(castor.Error) as raised, AsyncFileWriter(self.path) as writer:
                writer.write(bytes(16 << 20))
            saving = async_save({"weights": torch.zeros(4 << 20)}, self.path)
            with self.assertRaises(castor.Error):
                saving.synchronize()
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        self.assertEqual(raised.exception.kind, "io")
        self.assertEqual(self.path.read_bytes(), b"old")

    def test_are_saved_beside_the_program(self):
        state = {"weights": [values(300_000), values(7, dtype=torch.bfloat16)], "step": 3, "parameter": torch.nn.Parameter(values(5))}
        expected = [tensor.clone() for tensor in state["weights"]]
        saving = async_save(state, self.path)
        saving.sync_before_step()
        for tensor in state["weights"]:
            tensor.zero_()
        saving.synchronize()
        self.assertTrue(saving.done())
        loaded = torch.load(self.path)
        self.assertEqual(loaded["step"], 3)
        self.assertTrue(all(map(torch.equal, loaded["weights"], expected)))
        self.assertTrue(torch.equal(loaded["parameter"], values(5)))
        module = torch.nn.Linear(4, 4)
        weight = module.weight.detach().clone()
        saving = async_save(module, self.path)
        with torch.no_grad():
            module.weight.zero_()
        saving.synchronize()
        self.assertTrue(torch.equal(torch.load(self.path, weights_only=False).weight, weight))

    def test_are_saved_in_the_order_of_the_calls(self):
        for turn in range(4):
            savings = [async_save(torch.full((size,), turn), self.path) for size in (3 << 20, 3, 1 << 20, 7)]
            for saving in reversed(savings):
                saving.synchronize()
            self.assertEqual(torch.load(self.path).tolist(), [turn] * 7)

    def test_stay_where_the_program_was(self):
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(self.folder)
        with AsyncFileWriter("here") as writer:
            writer.write(b"1")
            os.chdir("/")
        self.assertEqual((self.folder / "here").read_bytes(), b"1")

    def test_a_fork_leaves_them_to_its_parent(self):
        writer = AsyncFileWriter(self.path)
        writer.write(bytes(9 << 20))

        def drop():
            nonlocal writer
            del writer
            return "dropped"

        self.assertEqual(in_a_fork(drop), "dropped")
        writer.close()
        self.assertEqual(self.path.stat().st_size, 9 << 20)

    def test_wrong_uses_are_refused(self):
        for path, message in ((self.folder / "no" / "file", "no"), ("/proc/file", "/proc")):
            with self.subTest(path=path), self.assertRaisesRegex(castor.Error, message):
                AsyncFileWriter(path)
        with self.assertRaisesRegex(castor.Error, "backend takes one of"):
            async_save({}, self.path, backend="aio")


if __name__ == "__main__":
    unittest.main()
