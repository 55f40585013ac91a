# SPDX-License-Identifier: Apache-2.0
"""python/build_backend/bin/patchelf on libraries that the compiler makes, against what objdump finds in them.

    library_paths.py [--gtest_output=xml:FILE] [Class.case …]

Environment: CXX = a compiler.
"""
import ctypes
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/support"))
import gtest_runner  # noqa: E402

PATCHELF = ROOT / "python/build_backend/bin/patchelf"


def patchelf(*arguments):
    return subprocess.run([sys.executable, PATCHELF, *map(str, arguments)], capture_output=True, text=True)


def found_by_objdump(library):
    said = subprocess.run(["objdump", "-p", library], capture_output=True, text=True, check=True).stdout
    found = re.search(r"(?:RUNPATH|RPATH)\s+(\S*)", said)
    return found.group(1) if found else None


class LibraryPaths(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def made(self, name, *options, text='extern "C" int answer() { return 42; }\n'):
        source, library = self.folder / f"{name}.cpp", self.folder / f"lib{name}.so"
        source.write_text(text)
        subprocess.run([*shlex.split(os.environ["CXX"]), "-shared", "-fPIC", source, "-o", library, *options], check=True)
        return library

    def test_are_read(self):
        for options in (("-Wl,-rpath,$ORIGIN/lib:/opt/x",), ("-Wl,-rpath,/a", "-Wl,--disable-new-dtags"), ()):
            library = self.made("read", *options)
            read = patchelf("--print-rpath", library)
            self.assertEqual((read.returncode, read.stdout.strip()), (0, found_by_objdump(library) or ""))

    def test_are_replaced_and_found_by_the_loader(self):
        (self.folder / "here").mkdir()
        inner = self.made("inner", "-Wl,-soname,libinner.so")
        outer = self.made("outer", f"-L{self.folder}", "-linner", "-Wl,-rpath,$ORIGIN/nowhere/at/all",
                          text='extern "C" int answer();\nextern "C" int twice() { return 2 * answer(); }\n')
        inner.rename(self.folder / "here/libinner.so")
        with self.assertRaises(OSError):
            ctypes.CDLL(str(outer))
        self.assertEqual(patchelf("--set-rpath", "$ORIGIN/here", outer).returncode, 0)
        self.assertEqual(found_by_objdump(outer), "$ORIGIN/here")
        self.assertEqual(ctypes.CDLL(str(outer)).twice(), 84)

    def test_can_become_shorter_and_not_longer(self):
        library = self.made("short", "-Wl,-rpath,/a/b")
        refused = patchelf("--set-rpath", "/a/b/c", library)
        self.assertEqual(refused.returncode, 1)
        self.assertIn("room for a path of 4 bytes", refused.stderr)
        self.assertEqual(found_by_objdump(library), "/a/b")
        self.assertEqual(patchelf("--set-rpath", "", library).returncode, 0)
        self.assertEqual(patchelf("--print-rpath", library).stdout, "\n")
        self.assertEqual(patchelf("--set-rpath", "/a", self.made("none")).returncode, 1)

    def test_other_files_are_refused_in_one_line(self):
        text = self.folder / "text"
        text.write_text("no library")
        for file in (text, self.folder / "missing"):
            refused = patchelf("--print-rpath", file)
            self.assertEqual((refused.returncode, refused.stderr.count("\n")), (1, 1), refused.stderr)


if __name__ == "__main__":
    sys.exit(gtest_runner.main(sys.argv[1:]))
