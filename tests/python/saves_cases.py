# SPDX-License-Identifier: Apache-2.0
"""Files of weights that are damaged, missing, of another model, or whose saving was interrupted."""

import contextlib
import itertools
import json
import os
import pickle
import resource
import shutil
import unittest
from pathlib import Path
from unittest import mock

import safetensors.torch
import torch
from torch import nn

import castor
from castor.booster import Booster, _loading
from castor.booster._files import replacing_folder, was_of
from files_cases import Files, boosted, train, transformers

if transformers:
    from models import MODELS

N_LAYERS = 2
OLD, NEW = 1.0, 2.0


def filled(value, width=8):
    """A model whose weights all are `value`."""
    model = nn.Sequential(*(nn.Linear(width, width) for _ in range(N_LAYERS)))
    for parameter in model.parameters():
        nn.init.constant_(parameter, value)
    return model


def save(value, path, **options):
    Booster().save_model(filled(value), path, **options)


def save_shards(value, folder, **options):
    """Each tensor in a file of its own."""
    save(value, folder, shard=True, size_per_shard=0, **options)


def values_in(path):
    """The values that a model has which was loaded from there."""
    model = filled(0.0)
    Booster().load_model(model, path)
    return {value for parameter in model.parameters() for value in parameter.flatten().tolist()}


def in_child(call):
    """What `call` returns in a process of its own; None of one that ended before."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(write, pickle.dumps(call()))
        finally:
            os._exit(0)
    os.close(write)
    os.waitpid(child, 0)
    with open(read, "rb") as stream:
        answer = stream.read()
    return pickle.loads(answer) if answer else None


def killed_at(number, name="replace"):
    """Within it the process ends at that call of a function of os."""
    real, n_calls = getattr(os, name), iter(range(number))
    return mock.patch.object(
        os, name, lambda *args, **options: os._exit(0) if next(n_calls, None) is None else real(*args, **options)
    )


def failing_at(number, name="replace"):
    def fail(*args):
        if next(n_calls, None) is None:
            raise OSError(28, "No space left on device")
        return real(*args)

    real, n_calls = getattr(os, name), iter(range(number))
    return mock.patch.object(os, name, fail)


def saved_within(context, call):
    with context:
        call()
    return True


def clear(folder):
    for path in folder.iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()


class WholeFolders(Files):
    """replacing_folder: two files of one number, whenever the process ends or a call fails, with an exchange of folders and
    without one."""

    def put(self, number, interrupted=contextlib.nullcontext()):
        with interrupted, replacing_folder(self.folder / "kept", having="one") as made:
            for name in ("one", "other"):
                (made / name).write_text(str(number))
        return True

    def found(self):
        return [(self.kept() / name).read_text() for name in ("one", "other")]

    def kept(self):
        kept = self.folder / "kept"
        return kept if kept.exists() else was_of(kept)

    def test_are_the_old_or_the_new_one(self):
        for exchanges in (True, False):
            for interrupted, name in itertools.product((killed_at, failing_at), ("rename", "fsync", "mkdir")):
                with self.subTest(exchanges=exchanges, kind=interrupted.__name__, call=name):
                    clear(self.folder)
                    without = contextlib.nullcontext() if exchanges else mock.patch("castor.booster._files.exchanged", lambda *_: False)
                    with without:
                        self.put(0)
                        seen = []
                        for number in itertools.count():
                            with contextlib.suppress(castor.Error):
                                ended = in_child(lambda: self.put(1, interrupted(number, name)))
                            seen.append(self.found())
                            if ended:
                                break
                            self.put(0)  # with what the interrupted one has left
                            self.assertEqual([path.name for path in self.folder.iterdir()], ["kept"])
                        self.assertEqual(seen[-1], ["1", "1"])
                        self.assertTrue(all(each in (["0", "0"], ["1", "1"]) for each in seen), seen)

    def test_that_hold_other_things_are_not_replaced(self):
        """Nor the folder that the process is in; an empty one is."""
        (self.folder / "kept").mkdir()
        self.put(0)
        clear(self.folder / "kept")
        (self.folder / "kept" / "mine").write_text("a year's work")
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(self.folder / "kept")
        for path in ("../kept", ".", self.folder / "kept"):
            with self.assertRaisesRegex(castor.Error, "with other files"), replacing_folder(Path(path), having="one"):
                self.fail("it was replaced")
        self.assertEqual([path.name for path in (self.folder / "kept").iterdir()], ["mine"])

    def test_take_the_place_of_a_file(self):
        (self.folder / "kept").write_text("a checkpoint of another strategy")
        for number in range(2):
            with mock.patch("castor.booster._files.exchanged", lambda *_: False), contextlib.suppress(castor.Error):
                self.put(2, failing_at(number, "rename"))
            self.assertEqual(self.kept().read_text(), "a checkpoint of another strategy")
        self.put(2)
        self.assertEqual(self.found(), ["2", "2"])
        self.assertEqual([path.name for path in self.folder.iterdir()], ["kept"])

    def test_stay_where_an_error_comes(self):
        self.put(0)
        with self.assertRaisesRegex(castor.Error, "room"), replacing_folder(self.folder / "kept", having="one"):
            raise castor.Error("no room", "io")
        self.assertEqual(self.found(), ["0", "0"])
        self.assertEqual([path.name for path in self.folder.iterdir()], ["kept"])


class Interrupted(Files):
    def check(self, first, then):
        """Whenever the second save ends early, all of the old weights are read, or all of the new ones."""
        for interrupted, name in itertools.product((killed_at, failing_at), ("replace", "fsync", "unlink")):
            if (interrupted, name) == (failing_at, "unlink"):
                continue
            with self.subTest(interrupted=interrupted.__name__, name=name):
                seen = []
                for number in range(100):
                    clear(self.folder)
                    first(OLD, self.folder / "model")
                    ended = in_child(
                        lambda: saved_within(interrupted(number, name), lambda: then(NEW, self.folder / "model"))
                    )
                    if interrupted is failing_at:
                        self.assertFalse([*self.folder.rglob("*.part")])
                    seen.append(values_in(self.folder / "model"))
                    if ended:
                        break
                self.assertEqual(seen[-1], {NEW})
                self.assertTrue(all(values in ({OLD}, {NEW}) for values in seen), seen)
                self.assertTrue(name == "unlink" or seen[0] == {OLD})

    def test_save_in_shards_leaves_no_mixture(self):
        self.check(save_shards, save_shards)

    def test_save_in_more_shards_or_other_files(self):
        self.check(lambda value, folder: save(value, folder, shard=True), save_shards)
        self.check(save_shards, lambda value, folder: save_shards(value, folder, use_safetensors=False))
        self.check(lambda value, folder: save_shards(value, folder, use_safetensors=False), save_shards)
        self.check(lambda value, folder: save(value, folder / "model.safetensors"), save_shards)

    def test_save_in_one_file(self):
        self.check(save, save)
        self.check(save, lambda value, path: save(value, path, use_safetensors=False))

    def test_save_of_a_killed_process_is_replaced(self):
        save_shards(OLD, self.folder)
        in_child(lambda: saved_within(killed_at(3), lambda: save_shards(NEW, self.folder)))
        self.assertTrue([*self.folder.glob("*.part")])
        for value in (3.0, 4.0, 5.0):
            save_shards(value, self.folder)
            self.assertEqual(values_in(self.folder), {value})
            self.assertEqual(len([*self.folder.iterdir()]), 2 * N_LAYERS + 1)

    def test_save_removes_nothing_elsewhere(self):
        """Whatever the index says that it replaces."""
        (self.folder / "model").mkdir()
        (self.folder / "precious").write_text("")
        index = {"weight_map": {"a": "../precious", "b": str(self.folder / "precious")}}
        (self.folder / "model/model.safetensors.index.json").write_text(json.dumps(index))
        save_shards(NEW, self.folder / "model")
        self.assertTrue((self.folder / "precious").exists())

    def test_first_save_has_no_weights(self):
        in_child(lambda: saved_within(killed_at(3), lambda: save_shards(NEW, self.folder)))
        with self.assertRaisesRegex(castor.Error, "several files of weights"):
            values_in(self.folder)

    def test_load_does_not_go_on_in_other_files(self):
        """Files are opened again after so many bytes that were read."""
        save(OLD, self.folder / "weights")
        read_one = _loading.Reader.read

        def read(reader, name):
            save(NEW, self.folder / "weights")
            return read_one(reader, name)

        with mock.patch.object(_loading, "MAPPED_BYTES", 0), mock.patch.object(_loading.Reader, "read", read):
            with self.assertRaisesRegex(castor.Error, "weights was replaced while it was read"):
                values_in(self.folder / "weights")

    @unittest.skipUnless(transformers, "transformers is not installed")
    def test_save_of_hugging_face(self):
        make, _ = MODELS["Qwen2"]
        model = make()

        def save(value, folder):
            with torch.no_grad():
                for parameter in model.parameters():
                    parameter.fill_(value)
            Booster().save_model(model, folder, shard=True, size_per_shard=0.02)

        seen = []
        for number in range(100):
            save(OLD, self.folder)
            ended = in_child(lambda: saved_within(killed_at(number), lambda: save(NEW, self.folder)))
            Booster().load_model(model, self.folder)
            seen.append({value for parameter in model.parameters() for value in parameter.flatten().tolist()})
            if ended:
                break
        self.assertGreater(number, 3)
        self.assertEqual([seen[0], seen[-1]], [{OLD}, {NEW}])
        self.assertTrue(all(values in ({OLD}, {NEW}) for values in seen), seen)
        read = type(model).from_pretrained(self.folder)
        self.assertEqual({value for parameter in read.parameters() for value in parameter.flatten().tolist()}, {NEW})


class Chosen(Files):
    """What is read of a folder with several files."""

    def put(self, value, name):
        weights = {key: tensor.detach() for key, tensor in filled(value).state_dict().items()}
        if name.endswith(".safetensors"):
            safetensors.torch.save_file(weights, self.folder / name)
        else:
            torch.save(weights, self.folder / name)

    def put_index(self, value, ending, stem):
        self.put(value, f"{stem}-00001-of-00001{ending}")
        places = dict.fromkeys(filled(value).state_dict(), f"{stem}-00001-of-00001{ending}")
        (self.folder / f"{stem}{ending}.index.json").write_text(json.dumps({"weight_map": places}))

    def test_in_the_order_of_from_pretrained(self):
        """Its code: _get_resolved_checkpoint_files of transformers."""
        self.put(9.0, "other.bin")
        self.put_index(1.0, ".bin", "pytorch_model")
        self.assertEqual(values_in(self.folder), {1.0})
        self.put(2.0, "pytorch_model.bin")
        self.assertEqual(values_in(self.folder), {2.0})
        self.put_index(3.0, ".safetensors", "model")
        self.assertEqual(values_in(self.folder), {3.0})
        self.put(4.0, "model.safetensors")
        self.assertEqual(values_in(self.folder), {4.0})
        self.assertEqual(values_in(self.folder / "pytorch_model.bin.index.json"), {1.0})

    def test_beside_files_of_trainers(self):
        for name in ("training_args.bin", "optimizer.bin", "scheduler.pt", "rng_state.pth"):
            torch.save({"state": {}, "param_groups": []}, self.folder / name)
        torch.save(Files, self.folder / "training_args.bin")
        self.put(OLD, "weights.bin")
        self.assertEqual(values_in(self.folder), {OLD})
        self.put(NEW, "model.safetensors")
        self.assertEqual(values_in(self.folder), {NEW})

    def test_shards_without_their_index(self):
        save_shards(OLD, self.folder)
        (self.folder / "model.safetensors.index.json").unlink()
        self.assertEqual(values_in(self.folder), {OLD})
        (self.folder / f"model-00003-of-{2 * N_LAYERS:05}.safetensors").unlink()
        with self.assertRaisesRegex(castor.Error, "several files of weights .*name one of them"):
            values_in(self.folder)

    def test_none(self):
        with self.assertRaisesRegex(castor.Error, "has no file of weights"):
            values_in(self.folder)
        booster, model, optimizer = boosted()
        train(model, optimizer, seeds=[0])
        booster.save_optimizer(optimizer, self.folder)
        with self.assertRaisesRegex(castor.Error, "has no file of weights .*load_optimizer"):
            booster.load_model(model, self.folder)

    def test_by_what_they_hold(self):
        """Whatever their names say."""
        save(OLD, self.folder / "model.pth")
        self.assertEqual(set(safetensors.torch.load_file(self.folder / "model.pth")), set(filled(OLD).state_dict()))
        save(NEW, self.folder / "new.safetensors", use_safetensors=False)
        torch.save(filled(3.0).state_dict(), self.folder / "legacy", _use_new_zipfile_serialization=False)
        for name, value in {"model.pth": OLD, "new.safetensors": NEW, "legacy": 3.0}.items():
            self.assertEqual(values_in(self.folder / name), {value})


def cut(file, n_bytes=None):
    os.truncate(file, file.stat().st_size // 2 if n_bytes is None else n_bytes)


class Damaged(Files):
    def refused(self, path, what, kind):
        with self.assertRaisesRegex(castor.Error, what) as caught:
            values_in(path)
        self.assertEqual(caught.exception.kind, kind)
        self.assertIn(str(self.folder), str(caught.exception))

    def test_files(self):
        for name in ("a.safetensors", "a.bin"):
            file = self.folder / name
            save(OLD, file, use_safetensors=name == "a.safetensors")
            cut(file)
            self.refused(file, f"cannot read .*{name}: .*save it again", "io")
            cut(file, 0)
            self.refused(file, f"cannot read .*{name}: the file is empty", "io")
        torch.save(Files, self.folder / "class")
        self.refused(self.folder / "class", "class: it is damaged, or holds other things than tensors", "io")
        torch.save([torch.ones(2)], self.folder / "list")
        self.refused(self.folder / "list", "holds a list, and no weights by name", "usage")
        torch.save({**filled(OLD).state_dict(), "0.weight": 3}, self.folder / "int")
        self.refused(self.folder / "int", "has a int as 0.weight, and the model a tensor", "usage")
        self.refused(self.folder / "nowhere", "there is no such file or folder", "usage")

    def test_indices(self):
        index = self.folder / "model.safetensors.index.json"
        save_shards(OLD, self.folder)
        (self.folder / f"model-00003-of-{2 * N_LAYERS:05}.safetensors").unlink()
        self.refused(self.folder, "index.json names model-00003-of-.*, which is not in its folder", "io")
        for text in (index.read_text()[:50], "{}", "[]", '{"weight_map": [1]}', '{"weight_map": {"0.weight": 3}}', "\udcff"):
            index.write_bytes(text.encode(errors="surrogateescape"))
            self.refused(self.folder, "model.safetensors.index.json is no index of weights, or damaged", "io")

    def test_schedulers(self):
        optimizer = torch.optim.SGD(filled(OLD).parameters(), lr=0.5)
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)
        file = self.folder / "scheduler"
        Booster().save_lr_scheduler(scheduler, file)
        cut(file)
        with self.assertRaisesRegex(castor.Error, f"cannot read {file}"):
            Booster().load_lr_scheduler(scheduler, file)

    def test_files_that_cannot_be_written(self):
        (self.folder / "file").write_text("")
        for options in ({}, {"use_safetensors": False}):
            for path, why in {
                "/proc/weights": "cannot write /proc/weights: No such file or directory; .*name another path",
                self.folder / "file/weights": "cannot write .*file/weights: (Not a directory|File exists)",
                self.folder: "is a folder; name a file, or give shard=True",
            }.items():
                with self.assertRaisesRegex(castor.Error, why):
                    save(NEW, path, **options)
            with self.assertRaisesRegex(castor.Error, "file is a file; name a folder"):
                save(NEW, self.folder / "file", shard=True, **options)
            with self.assertRaisesRegex(castor.Error, "cannot write /proc/weights: No such file or directory"):
                save(NEW, "/proc/weights", shard=True, **options)
        self.assertEqual([file.name for file in self.folder.parent.glob(self.folder.name + "*")], [self.folder.name])

    def test_drives_that_are_full(self):
        """As where files may have so many bytes."""

        def error_of(path, options):
            resource.setrlimit(resource.RLIMIT_FSIZE, (500, 500))
            try:
                save(NEW, path, **options)
            except castor.Error as error:
                return str(error)

        for options in ({}, {"use_safetensors": False}, {"shard": True}, {"shard": True, "use_safetensors": False}):
            path = self.folder / str(len([*self.folder.iterdir()]))
            save(OLD, path, **options)
            self.assertRegex(in_child(lambda: error_of(path, options)), f"cannot write {path}: File too large; what was there")
            self.assertEqual(values_in(path), {OLD})
            self.assertFalse([*self.folder.rglob("*.part")])

    def test_folders_of_files_are_made(self):
        save(NEW, self.folder / "a/b/weights")
        self.assertEqual(values_in(self.folder / "a/b/weights"), {NEW})


class OfAnotherModel(Files):
    """Nothing is loaded of them."""

    def refused(self, model, what, path, **options):
        before = {name: values.clone() for name, values in model.state_dict().items()}
        with self.assertRaisesRegex(castor.Error, what):
            Booster().load_model(model, path, **options)
        self.assert_same(model.state_dict(), before)

    def test_sizes(self):
        weights = filled(NEW).state_dict()
        weights[f"{N_LAYERS - 1}.bias"] = torch.ones(9)
        safetensors.torch.save_file(weights, self.folder / "a.safetensors")
        torch.save(weights, self.folder / "a.bin")

        class Own(nn.Linear):
            def _load_from_state_dict(self, *args):
                super()._load_from_state_dict(*args)

        for name in ("a.safetensors", "a.bin"):
            why = rf"{name} has 1.bias with sizes \(9,\), and the model \(8,\)"
            self.refused(boosted(filled(OLD), precision=None)[1], why, self.folder / name)
            self.refused(filled(OLD), why, self.folder / name)
            self.refused(filled(OLD), why, self.folder / name, strict=False)
            with_own = filled(OLD)
            with_own[0] = Own(8, 8)
            self.refused(with_own, why, self.folder / name)
        own = filled(OLD)
        own[N_LAYERS - 1] = Own(8, 8)
        with self.assertRaisesRegex(castor.Error, r"a.bin does not fit the model, which has some .*\s.*1.bias"):
            Booster().load_model(own, self.folder / "a.bin")

    def test_names(self):
        save(NEW, self.folder / "weights")
        more = nn.Sequential(*filled(OLD), nn.Linear(8, 8))
        self.refused(more, "lacks weights of the model: 2.weight", self.folder / "weights")
        self.refused(filled(OLD)[:1], "has weights that the model does not have: 1.bias", self.folder / "weights")

    @unittest.skipUnless(transformers, "transformers is not installed")
    def test_sizes_of_what_is_converted(self):
        """The experts of Mixtral, which are fused."""
        make, _ = MODELS["Mixtral"]
        make().save_pretrained(self.folder / "model")
        file = self.folder / "model/model.safetensors"
        weights = safetensors.torch.load_file(file)
        for name in [name for name in weights if ".experts." in name and "layers.1." in name]:
            weights[name] = torch.ones(weights[name].shape[0] + 2, weights[name].shape[1] + 2)
        safetensors.torch.save_file(weights, file)
        model = make()
        self.refused(model, r"experts.* with sizes \(.*\), and the model", self.folder / "model")


class Options(Files):
    def refused(self, what, option, **options):
        booster, model, _ = boosted()
        with self.assertRaisesRegex(castor.Error, what) as caught:
            booster.save_model(model, self.folder / "weights", **options)
        self.assertEqual((caught.exception.kind, caught.exception.option), ("usage", option))
        self.assertFalse([*self.folder.iterdir()])

    def test_that_are_unknown_or_mean_nothing_are_refused(self):
        self.refused("save_model has no option shrad; did you mean shard?", "shrad", shrad=True)
        self.refused("use_async is True", "use_async", use_async=True)
        self.refused("gather_dtensor is False", "gather_dtensor", gather_dtensor=False)
        for size in (-5, float("nan"), float("inf"), "1GB", None):
            for shard in (False, True):
                self.refused("size_per_shard takes a number of MB", "size_per_shard", size_per_shard=size, shard=shard)
        self.refused("prefix names the files of shard=True", "prefix", prefix="mine")
        self.refused("name the folder in path", "prefix", prefix="a/b", shard=True)

    def test_that_change_nothing_are_taken(self):
        save(NEW, self.folder / "weights", gather_dtensor=True, use_async=False, prefix=None, size_per_shard=10)
        self.assertEqual(values_in(self.folder / "weights"), {NEW})

    def test_prefix(self):
        save_shards(OLD, self.folder, prefix="mine", use_safetensors=False)
        self.assertTrue((self.folder / "mine.bin.index.json").is_file())
        self.assertEqual(values_in(self.folder), {OLD})
        save_shards(NEW, self.folder)
        self.assertEqual(values_in(self.folder / "mine.bin.index.json"), {OLD})
        self.assertEqual(values_in(self.folder / "model.safetensors.index.json"), {NEW})

    @unittest.skipUnless(transformers, "transformers is not installed")
    def test_of_models_of_hugging_face(self):
        """Weights in one file and in several."""
        make, _ = MODELS["Qwen2"]
        torch.manual_seed(0)
        model = make()
        for size, mark in ((1024, ""), (0.02, ".index.json")):
            for options, name in (
                ({"prefix": "mine"}, "mine.safetensors"),
                ({"prefix": "mine", "use_safetensors": False}, "mine.bin"),
                ({"use_safetensors": False}, "pytorch_model.bin"),
            ):
                folder = self.folder / f"{name}{mark}"
                Booster().save_model(model, folder, shard=True, size_per_shard=size, **options)
                self.assertTrue((folder / (name + mark)).is_file())
                other = make()
                Booster().load_model(other, folder)
                self.assert_same(other.state_dict(), model.state_dict())
            read = type(model).from_pretrained(folder)
            self.assert_same(read.state_dict(), model.state_dict())

    def test_of_models_with_names_of_their_own(self):
        """As adapters of peft, and models of diffusers."""

        class Adapter(nn.Linear):
            def save_pretrained(self, folder, max_shard_size):
                safetensors.torch.save_file(self.state_dict(), Path(folder) / "adapter_model.safetensors")
                (Path(folder) / "adapter_config.json").write_text("{}")

        adapter = Adapter(4, 4)
        Booster().save_model(adapter, self.folder / "a", shard=True)
        self.assertEqual({f.name for f in (self.folder / "a").iterdir()}, {"adapter_model.safetensors", "adapter_config.json"})
        other = Adapter(4, 4)
        Booster().load_model(other, self.folder / "a")
        self.assert_same(other.state_dict(), adapter.state_dict())
        with self.assertRaisesRegex(castor.Error, "Adapter saves adapter_model.safetensors; leave out prefix"):
            Booster().save_model(adapter, self.folder / "b", shard=True, prefix="mine")
        self.assertFalse((self.folder / "b").exists())
