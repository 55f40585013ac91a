# SPDX-License-Identifier: Apache-2.0
"""Installs the build into a folder, moves that elsewhere, and uses it there as others do: the command, and the programs
of examples/, built with pkg-config's flags and with CMake.

    installed_tree.py BUILD_DIR [--gtest_output=xml:FILE] [Class.case …]

Environment: CXX and CC = the compilers that built Castor, CASTOR_HAS_TORCH = 1 or 0. Skips its cases where Meson can
not be found, and those of CMake without CMake.
"""
import importlib.util
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/support"))
import gtest_runner  # noqa: E402

BUILD = pathlib.Path(sys.argv[1])
HAS_TORCH = os.environ["CASTOR_HAS_TORCH"] == "1"
COMPILER = shlex.split(os.environ["CXX"])
LIST = [line for line in (ROOT / "packaging/stable_headers.txt").read_text().splitlines() if line and line[0] != "#"]
# Meson's tests run with the libraries of the build tree on LD_LIBRARY_PATH.
LEFT_OUT = ("CASTOR_PLUGIN_PATH", "LD_LIBRARY_PATH", "CXX", "CC")
CLEAN = {name: value for name, value in os.environ.items() if name not in LEFT_OUT}


def meson_command() -> list[str]:
    """Meson as a module of this Python, or as a program; empty if there is neither."""
    if importlib.util.find_spec("mesonbuild"):
        return [sys.executable, "-m", "mesonbuild.mesonmain"]
    program = shutil.which("meson")
    return [program] if program else []


def output_of(*command, **environment) -> str:
    """The output of a command. Raises AssertionError with all that it said where it fails."""
    words = [str(word) for word in command]
    done = subprocess.run(words, capture_output=True, text=True, timeout=300, cwd="/", env={**CLEAN, **environment})
    if done.returncode != 0:
        raise AssertionError(f"{shlex.join(words)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


def losses_of(said: str) -> list[float]:
    """The losses that train_module printed. Its peaks of host and NVMe differ a little from run to run."""
    return [float(loss) for loss in re.findall(r"loss ([\d.]+)", said)]


def expected_headers() -> list[str]:
    wanted = LIST if HAS_TORCH else [line for line in LIST if not line.startswith("plugins/torch/")]
    return sorted(line.split("/include/")[1] for line in wanted)


class Installed(unittest.TestCase):
    """One moved tree for all cases, with the programs that they have built so far."""

    @classmethod
    def setUpClass(cls):
        meson = meson_command()
        if not meson:
            raise unittest.SkipTest("Meson is neither a module of this Python nor on PATH")
        folder = tempfile.TemporaryDirectory(prefix="castor_installed_")
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name).resolve()
        output_of(*meson, "install", "-C", BUILD, "--no-rebuild", "--quiet", "--destdir", cls.folder / "first")
        (cls.folder / "first").rename(cls.folder / "moved")
        cls.castor = next(path for path in (cls.folder / "moved").rglob("bin/castor"))
        cls.prefix = cls.castor.parent.parent
        cls.config = next(cls.prefix.rglob("castor.pc")).parent

    def flags(self, package: str) -> list[str]:
        return shlex.split(output_of("pkg-config", "--cflags", "--libs", package, PKG_CONFIG_PATH=str(self.config)))

    def build(self, source: str, package: str, *options: str) -> pathlib.Path:
        """Builds an example by the command in its first comment."""
        program = self.folder / pathlib.Path(source).stem
        if not program.exists():
            output_of(*COMPILER, *options, ROOT / "examples" / source, *self.flags(package), "-o", program)
        return program

    def scratch(self) -> str:
        return tempfile.mkdtemp(dir=self.folder)


class Headers(Installed):
    def test_only_those_of_the_list_are_installed(self):
        include = self.prefix / "include"
        found = sorted(str(path.relative_to(include)) for path in include.rglob("*") if path.is_file())
        self.assertEqual(found, expected_headers())

    def test_they_compile_with_nothing_but_themselves(self):
        package = "castor-torch" if HAS_TORCH else "castor"
        probe = self.folder / "all.cpp"
        probe.write_text("".join(f"#include <{name}>\n" for name in expected_headers() if name.endswith(".h")))
        output_of(*COMPILER, "-std=c++20", "-fsyntax-only", *self.flags(package), probe)

    def test_the_plugin_interface_is_c(self):
        probe = self.folder / "abi.c"
        probe.write_text("#include <castor/version.h>\n#include <castor/plugins/abi.h>\n")
        compiler = [*shlex.split(os.environ["CC"]), "-std=c11", "-pedantic-errors", "-Werror"]
        output_of(*compiler, "-fsyntax-only", *self.flags("castor"), probe)

    def test_the_documentation_names_each_of_them(self):
        page = (ROOT / "docs/library.md").read_text()
        for name in expected_headers():
            if name.endswith(".h"):
                self.assertIn(pathlib.PurePath(name).name, page)


class Command(Installed):
    def listed(self) -> dict[str, pathlib.Path]:
        found = json.loads(output_of(self.castor, "plugins", "list", "--json").splitlines()[-1])["plugins"]
        return {plugin["name"]: pathlib.Path(plugin["path"]) for plugin in found if plugin["ok"]}

    def test_it_finds_its_plugins_in_the_moved_tree(self):
        found = self.listed()
        for name in ("gemini", "minimal_c"):
            self.assertTrue(found[name].is_relative_to(self.prefix), found[name])


class WithPkgConfig(Installed):
    def test_the_store_keeps_values_from_run_to_run(self):
        store, folder = self.build("store.cpp", "castor", "-std=c++20"), self.scratch()
        self.assertRegex(output_of(store, folder), r"^a new store with (io_uring|threads)$")
        first, *values = output_of(store, folder).splitlines()
        self.assertRegex(first, r"^the store with ")
        said = "of commit 1: 8388608 of 8388608 bytes are those that were put"
        self.assertEqual(values, [f"value {key} {said}" for key in (1, 2)])

    def test_the_store_says_what_is_wrong(self):
        store = self.build("store.cpp", "castor", "-std=c++20")
        done = subprocess.run([store, "/proc/nothing"], capture_output=True, text=True, env=CLEAN)
        self.assertEqual(done.returncode, 1)
        self.assertIn("/proc/nothing", done.stderr)

    @unittest.skipUnless(HAS_TORCH, "built without LibTorch")
    def test_a_module_trains_over_three_tiers(self):
        said = output_of(self.build("train_module.cpp", "castor-torch"), self.scratch())
        losses = losses_of(said)
        self.assertEqual(len(losses), 5)
        self.assertLess(losses[-1], 0.6 * losses[0])
        peaks = {tier: float(mib) for tier, mib in re.findall(r"(\w+): at most ([\d.]+) MiB", said)}
        self.assertLessEqual(peaks["device"], 1)
        self.assertLessEqual(peaks["host"], 2)
        self.assertGreater(peaks["nvme"], 1)


@unittest.skipUnless(shutil.which("cmake"), "CMake is not installed")
class WithCMake(Installed):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.tree = cls.folder / "cmake"
        arguments = [f"-DCMAKE_PREFIX_PATH={cls.prefix}", f"-DCMAKE_CXX_COMPILER={COMPILER[-1]}"]
        output_of("cmake", "-S", ROOT / "examples", "-B", cls.tree, *arguments)
        output_of("cmake", "--build", cls.tree)

    def test_the_store_keeps_values_from_run_to_run(self):
        folder = self.scratch()
        output_of(self.tree / "store", folder)
        self.assertIn("value 2 of commit 1", output_of(self.tree / "store", folder))

    @unittest.skipUnless(HAS_TORCH, "built without LibTorch")
    def test_a_module_trains_as_with_pkg_config(self):
        ours = losses_of(output_of(self.tree / "train_module", self.scratch()))
        theirs = losses_of(output_of(self.build("train_module.cpp", "castor-torch"), self.scratch()))
        self.assertEqual(len(ours), 5)
        self.assertEqual(ours, theirs)

    def trained(self, plugin) -> dict:
        model = ["--model", "gpt:layers=1,hidden=32,heads=2,vocab=256", "--seq", "16", "--batch", "2", "--threads", "1"]
        rule = ["--precision", "fp32", "--optimizer", "sgd", "--lr", "0.1", "--momentum", "0", "--weight-decay", "0"]
        command = [self.castor, "train", *model, *rule, "--steps", "5", "--plugin", plugin, "--json"]
        return json.loads(output_of(*command).splitlines()[-1])

    @unittest.skipUnless(HAS_TORCH, "built without LibTorch")
    def test_a_plugin_out_of_tree_has_the_bits_of_the_resident_run(self):
        mine, plain = self.trained(self.tree / "plugin/libcastor_sgd.so"), self.trained("none")
        self.assertEqual(mine["losses"], plain["losses"])
        self.assertEqual(mine["weights_digest"], plain["weights_digest"])
        self.assertLess(mine["losses"][-1], mine["losses"][0])

    def test_programs_need_stable_names_alone(self):
        built = [path for path in self.tree.rglob("*") if path.name in ("store", "train_module", "libcastor_sgd.so")]
        for program in built:
            needed = output_of("nm", "-D", "-u", "-C", "--with-symbol-versions", program).splitlines()
            ours = [line for line in needed if "castor::" in line]
            self.assertEqual([line for line in ours if not line.endswith("@CASTOR_0")], [], program.name)
            self.assertGreater(len(ours), 3, program.name)
        self.assertEqual(len(built), 3 if HAS_TORCH else 2)

    def test_another_version_is_refused(self):
        project = self.folder / "newer"
        project.mkdir()
        (project / "CMakeLists.txt").write_text(
            "cmake_minimum_required(VERSION 3.18)\nproject(newer CXX)\nfind_package(castor 0.9 REQUIRED)\n")
        done = subprocess.run(["cmake", "-S", project, "-B", project / "build", f"-DCMAKE_PREFIX_PATH={self.prefix}"],
                              capture_output=True, text=True, env=CLEAN)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("version: 0.1.0", done.stderr)


class Examples(unittest.TestCase):
    def test_they_are_short(self):
        for name in ("train_module.cpp", "store.cpp", "plugin/sgd.cpp"):
            self.assertLessEqual(len((ROOT / "examples" / name).read_text().splitlines()), 60, name)
        self.assertLessEqual(len((ROOT / "examples/plugin/CMakeLists.txt").read_text().splitlines()), 10)

    def test_training_takes_few_lines_beyond_the_model(self):
        code = (ROOT / "examples/train_module.cpp").read_text().splitlines()
        ours = [line for line in code if re.search(r"castor|session", line) and not line.startswith("//")]
        self.assertLessEqual(len(ours), 15)


if __name__ == "__main__":
    sys.exit(gtest_runner.main(sys.argv[2:]))
