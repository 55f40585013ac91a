# SPDX-License-Identifier: Apache-2.0
"""What no command may do to files: outputs that are inputs, outputs that cannot be written, folders with several names."""

import os
import pathlib
import subprocess
import unittest

from command_case import CASTOR, GPT, HAS_GEMINI, HAS_TORCH, MINIMAL, TEXT, CommandCase, run, without_capabilities

TIERS = ["--plugin", "gemini", "--device-budget", "300KiB", "--host-budget", "1MiB", "--set", "chunk_bytes=64KiB"]


def contents(folder):
    """Names and bytes of all files in `folder`, with the mode of each."""
    return {path.name: (path.read_bytes(), path.stat().st_mode) for path in sorted(pathlib.Path(folder).iterdir())}


@unittest.skipUnless(HAS_TORCH and HAS_GEMINI, "no plugin gemini here")
class OutputsAgainstInputs(CommandCase):
    """An output that is another file of the command is refused before anything is touched, whatever its name is."""

    def train(self, *options, **more):
        steps = [] if "--steps" in options else ["--steps", "2"]
        return run("train", *GPT, "--plugin", "gemini", *steps, "--json", *options, **more)

    def refused(self, trace, *options, words=(), code=2):
        self.assert_error(self.train("--trace", trace, *options), code, trace, *words)

    def test_the_data_file_under_all_its_names(self):
        data = self.text()
        (self.folder / "x").mkdir()
        os.link(data, self.folder / "hard")
        (self.folder / "soft").symlink_to(data)
        for name in (data, self.folder / "hard", self.folder / "soft", self.folder / "x" / ".." / "text"):
            self.refused(name, "--data", data, words=["--trace", f"the file of --data {data}"])
        self.assertEqual(data.read_bytes(), TEXT)

    def test_the_files_of_a_checkpoint(self):
        saved = self.folder / "saved"
        for manifest in ("castor.manifest", "castor.manifest.tmp", "castor-0123456789abcdef-0.data"):
            self.refused(saved / manifest, "--checkpoint", saved, words=["a file of --checkpoint"])
        self.assertFalse(saved.exists())
        self.assert_result(self.train("--checkpoint", saved))
        before = contents(saved)
        link = self.folder / "elsewhere"
        for name in before:
            self.refused(saved / name, "--resume", saved, "--steps", "3", words=["a file of --resume"])
            link.symlink_to(saved / name)
            self.refused(link, "--resume", saved, "--steps", "3", words=["a file of --resume"])
            link.unlink()
        self.assertEqual(contents(saved), before)

    def test_the_trace_of_a_bench(self):
        saved = self.folder / "saved"
        self.assert_result(self.train("--checkpoint", saved))
        before = contents(saved)
        bench = ["bench", "step", "--model", "gpt:layers=1,hidden=32,heads=2,vocab=256", "--fio", "off", "--json"]
        done = run(*bench, "--dir", saved, "--trace", saved / "castor.manifest")
        self.assert_error(done, 2, "a file of --dir")
        self.assertEqual(contents(saved), before)

    def test_the_standard_output_and_error(self):
        result = self.folder / "result"
        for stream in ("stdout", "stderr"):
            with open(result, "wb") as file:
                done = subprocess.run(
                    [CASTOR, "train", *GPT, "--plugin", "gemini", "--steps", "2", "--json", "--trace", str(result)],
                    **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, stream: file},
                )
            self.assertEqual(done.returncode, 2)
            words = "stdout" if stream == "stderr" else "stderr"
            self.assertIn("the file of the standard", (done.stderr or b"").decode() + result.read_text(), words)

    def test_a_plugin(self):
        copy = self.folder / "libcastor_copy.so"
        copy.write_bytes(pathlib.Path(MINIMAL).read_bytes())
        before = copy.read_bytes()
        self.assert_error(
            run("train", *GPT, "--plugin", copy, "--steps", "1", "--trace", copy, "--json"), 2, "the file of --plugin"
        )
        self.assertEqual(copy.read_bytes(), before)
        named = run("train", *GPT, "--plugin", "copy", "--steps", "1", "--trace", copy, "--json", CASTOR_PLUGIN_PATH=str(self.folder))
        self.assert_error(named, 2, f"a file of --plugin {self.folder}")
        self.assertEqual(copy.read_bytes(), before)

    def test_what_is_no_regular_file_is_refused_without_waiting(self):
        os.mkfifo(self.folder / "fifo")
        for name, what in ((self.folder / "fifo", "no regular file"), (self.folder, "a folder"), ("/dev/full", "no regular file")):
            self.refused(name, words=[what])

    def test_a_page_is_neither_the_trace_nor_what_is_no_file(self):
        trace = self.folder / "trace"
        self.assert_result(self.train("--trace", trace))
        before = trace.read_bytes()
        os.link(trace, self.folder / "same")
        os.mkfifo(self.folder / "fifo")
        self.assert_error(run("memprof", trace, "--html", self.folder / "same", "--json"), 2, "the file of TRACE")
        self.assert_error(run("memprof", trace, "--html", self.folder / "fifo", "--json"), 2, "no regular file")
        self.assertEqual(trace.read_bytes(), before)

    def test_an_output_that_is_cut_short_leaves_the_old_file(self):
        trace, page = self.folder / "trace", self.folder / "page"
        self.assert_result(self.train("--trace", trace))
        page.write_text("old")
        small = ["prlimit", f"--fsize={4096}"]
        self.assert_error(run("memprof", trace, "--html", page, "--json", wrapper=small), 4, page, "File too large")
        self.assertEqual(page.read_text(), "old")
        before = trace.read_bytes()
        self.assert_error(
            run("train", *GPT, "--plugin", "gemini", "--steps", "2", "--json", "--trace", trace, wrapper=small), 4, trace
        )
        self.assertEqual(trace.read_bytes(), before)
        self.assertEqual(sorted(path.name for path in self.folder.iterdir()), ["page", "trace"], "nothing is left beside them")

    def test_an_output_follows_the_umask_and_a_link(self):
        real, link = self.folder / "real", self.folder / "link"
        link.symlink_to(real)
        self.assert_result(self.train("--trace", link, wrapper=["sh", "-c", 'umask 027; exec "$@"', "sh"]))
        self.assertTrue(link.is_symlink())
        self.assertEqual(real.stat().st_mode & 0o777, 0o640)


@unittest.skipUnless(HAS_TORCH and HAS_GEMINI, "no plugin gemini here")
class RefusalsChangeNothing(CommandCase):
    """A command that is refused leaves the folders of runs as they are, incomplete copies included."""

    def train(self, *options):
        return run("train", *GPT, "--plugin", "gemini", "--json", *options)

    def setUp(self):
        super().setUp()
        self.saved = self.folder / "saved"
        self.assert_result(self.train("--steps", "2", "--checkpoint", self.saved))

    def test_a_copy_without_its_manifest_is_no_checkpoint_to_go_on_with(self):
        (self.saved / "castor.manifest").rename(self.folder / "castor.manifest")
        before = contents(self.saved)
        for options in (["--checkpoint", self.saved], ["--nvme", self.saved, "--durability", "commit"]):
            self.assert_error(self.train("--steps", "3", "--resume", self.saved, *options), 2, "there is no checkpoint")
            self.assertEqual(contents(self.saved), before)
        (self.folder / "castor.manifest").rename(self.saved / "castor.manifest")
        self.assert_result(self.train("--steps", "3", "--resume", self.saved, "--checkpoint", self.saved))

    def test_a_run_that_is_not_continued(self):
        (self.saved / "castor-1111111111111111-0.data").write_bytes(b"of a run that died")
        before = contents(self.saved)
        self.assert_error(self.train("--steps", "3", "--checkpoint", self.saved), 2, "holds a run of 2 steps already")
        self.assertEqual(contents(self.saved), before)

    def test_the_second_folder_of_another_run(self):
        p, q = self.folder / "p", self.folder / "q"
        self.assert_result(self.train("--steps", "2", "--checkpoint", f"{p},{q}"))
        before = contents(q)
        self.assert_error(self.train("--steps", "2", "--checkpoint", q), 2, "keeps a part of a store", q)
        self.assertEqual(contents(q), before)
        self.assert_result(self.train("--steps", "3", "--resume", f"{p},{q}"))

    def test_too_little_room_for_a_save_is_said_before_training(self):
        small = self.folder / "small"
        small.mkdir()
        mount = f'mount -t tmpfs -o size=64k tmpfs {small} && exec "$@"'
        wrapper = ["unshare", "--mount", "sh", "-c", mount, "sh"]
        if subprocess.run([*wrapper, "true"], capture_output=True).returncode != 0:
            self.skipTest("nothing may be mounted here")
        done = run("train", *GPT, "--steps", "2", "--checkpoint", small / "saved", "--json", wrapper=wrapper)
        self.assertEqual(done.returncode, 4, done.stderr)
        self.assertRegex(done.stderr.splitlines()[0], "^castor: warning: a save writes .*, and .*/saved has .* free; make room")

    def test_leftovers_are_removed_with_a_warning(self):
        fresh = self.folder / "fresh"
        fresh.mkdir()
        (fresh / "castor-1111111111111111-0.data").write_bytes(b"of a run that died")
        done = self.train("--steps", "1", "--checkpoint", fresh)
        self.assert_result(done)
        self.assertRegex(done.stderr, "castor: warning: .*removed 1 file")

    def test_a_checkpoint_that_may_not_be_read_is_there(self):
        self.saved.chmod(0o000)
        self.addCleanup(self.saved.chmod, 0o700)
        done = run(
            "train", *GPT, "--plugin", "gemini", "--json", "--steps", "3", "--resume", self.saved, wrapper=without_capabilities()
        )
        self.assert_error(done, 4, "Permission denied")

    def test_a_name_that_is_no_utf8(self):
        data = os.fsencode(self.folder) + b"/bad\xff.txt"
        with open(data, "wb") as file:
            file.write(TEXT)
        saved = self.folder / "named"
        command = [CASTOR, "train", *GPT, "--plugin", "gemini", "--data", data, "--checkpoint", str(saved)]
        done = subprocess.run([*command, "--steps", "2"], capture_output=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        rest = subprocess.run([*command, "--steps", "3", "--resume", str(saved)], capture_output=True)
        self.assertEqual(rest.returncode, 0, rest.stderr)
        self.assertNotIn(b"other settings", rest.stderr)


@unittest.skipUnless(HAS_TORCH and HAS_GEMINI, "no plugin gemini here")
class FoldersByManyNames(CommandCase):
    """One grammar for all options that take folders; a folder counts once; links lead to their folder."""

    def train(self, *options, **more):
        steps = [] if "--steps" in options else ["--steps", "2"]
        return run("train", *GPT, *TIERS, "--nvme", self.folder, *steps, "--json", *options, **more)

    def test_a_comma_in_a_name_is_written_with_a_backslash(self):
        folder = self.folder / "a,b"
        spelled = str(folder).replace(",", "\\,")
        self.assert_result(self.train("--checkpoint", spelled))
        self.assertTrue((folder / "castor.manifest").exists())
        self.assertEqual(self.assert_result(self.train("--resume", spelled, "--steps", "3"))["first_step"], 2)
        self.assert_result(run("train", *GPT, *TIERS, "--nvme", spelled, "--steps", "1", "--json"))
        self.assert_error(self.train("--checkpoint", f"{self.folder}/c,"), 2, "one of them is empty")

    def test_several_folders_save_one_run(self):
        both = f"{self.folder}/one,{self.folder}/two"
        self.assert_result(self.train("--checkpoint", both))
        self.assertEqual(self.assert_result(self.train("--resume", both, "--steps", "3"))["first_step"], 2)

    def test_a_folder_that_is_named_twice_is_refused(self):
        folder, link = self.folder / "one", self.folder / "link"
        folder.mkdir()
        link.symlink_to(folder)
        for other in (folder, f"{folder}/../one", link, f"{link}/"):
            for option in ("--nvme", "--checkpoint"):
                refused = run("train", *GPT, *TIERS, option, f"{folder},{other}", "--steps", "1", "--json")
                self.assert_error(refused, 2, "is named twice")
        self.assert_error(run("bench", "io", "--dir", f"{folder},{link}", "--seconds", "0.1", "--json"), 2, "is named twice")

    def test_a_link_is_followed_by_every_option(self):
        folder, link = self.folder / "real", self.folder / "link"
        folder.mkdir()
        link.symlink_to(folder)
        for name in (link, f"{link}/"):
            self.assert_result(run("train", *GPT, *TIERS, "--nvme", name, "--steps", "1", "--json"))
            self.assert_result(run("check", "--dir", name, "--json"))
        self.assert_result(self.train("--checkpoint", link))
        self.assertEqual(self.assert_result(self.train("--resume", f"{link}/", "--steps", "3"))["first_step"], 2)

    def test_a_checkpoint_follows_the_umask(self):
        saved = self.folder / "saved"
        for umask, mode in (("022", 0o644), ("077", 0o600), ("002", 0o664)):
            folder = saved / umask
            folder.parent.mkdir(exist_ok=True)
            self.assert_result(self.train("--checkpoint", folder, wrapper=["sh", "-c", f'umask {umask}; exec "$@"', "sh"]))
            self.assertEqual({path.stat().st_mode & 0o777 for path in folder.iterdir()}, {mode}, umask)


@unittest.skipUnless(HAS_TORCH and HAS_GEMINI, "no plugin gemini here")
class ResumingReadsOnly(CommandCase):
    """The checkpoint that a run starts from is not changed, and others may start from it at the same time."""

    JOB = ["train", *GPT, "--plugin", "gemini", "--json"]

    def setUp(self):
        super().setUp()
        self.saved = self.folder / "saved"
        self.assert_result(run(*self.JOB, "--steps", "2", "--checkpoint", self.saved))
        self.before = contents(self.saved)
        self.addCleanup(os.chmod, self.saved, 0o755)

    def tearDown(self):
        self.assertEqual(contents(self.saved), self.before)

    def test_three_runs_that_start_at_once(self):
        begun = [
            subprocess.Popen(
                [CASTOR, *map(str, self.JOB), "--steps", "40", "--resume", str(self.saved), "--checkpoint", str(self.folder / name)],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            for name in ("a", "b", "c")
        ]
        ended = [(child, *child.communicate(timeout=100)) for child in begun]
        self.assertEqual([child.returncode for child, _, _ in ended], [0, 0, 0], ended)

    def test_a_checkpoint_that_may_only_be_read(self):
        os.chmod(self.saved, 0o555)
        for file in self.saved.iterdir():
            os.chmod(file, 0o444)
        self.before = contents(self.saved)
        done = run(*self.JOB, "--steps", "3", "--resume", self.saved, wrapper=without_capabilities())
        self.assertEqual(self.assert_result(done)["first_step"], 2)

    def test_one_that_is_written_to_meanwhile_is_refused(self):
        child = subprocess.Popen(
            [CASTOR, *map(str, self.JOB), "--steps", "1000000", "--resume", str(self.saved), "--checkpoint", str(self.saved)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.addCleanup(child.communicate)
        self.addCleanup(child.kill)
        for line in child.stderr:
            if line.startswith("step "):
                break
        self.assert_error(run(*self.JOB, "--steps", "3", "--resume", self.saved), 4, f"process {child.pid}")


class ResultsThatCannotBeWritten(CommandCase):
    """A result that is lost is an I/O error and a sentence on stderr, never silence."""

    def to_full(self, *arguments):
        with open("/dev/full", "wb") as full:
            return subprocess.run([CASTOR, *map(str, arguments)], stdout=full, stderr=subprocess.PIPE, text=True, timeout=100)

    def assert_lost(self, done):
        self.assertEqual(done.returncode, 4, done.stderr)
        self.assertIn("castor: the result cannot be written to the standard output: No space left on device", done.stderr)

    def test_of_every_command(self):
        commands = [["--help"], ["--version"], ["train", "--help"], ["check"], ["check", "--json"], ["plugins", "list", "--json"]]
        if HAS_TORCH:
            commands += [["train", *GPT, "--plugin", "none", "--steps", "1", *json] for json in ([], ["--json"])]
            commands.append(["estimate", *GPT[:4], "--json"])
        for command in commands:
            with self.subTest(command=command):
                self.assert_lost(self.to_full(*command))

    def test_an_error_keeps_its_own_code(self):
        done = self.to_full("train", "--json")
        self.assertEqual(done.returncode, 2)
        self.assertIn("--model is missing", done.stderr)

    def test_a_closed_output_never_becomes_a_file(self):
        if not HAS_TORCH:
            self.skipTest("no LibTorch here")
        trace = self.folder / "trace"
        script = 'exec "$@" >&- 2>&-'
        done = run("train", *GPT, "--steps", "1", "--trace", trace, wrapper=["sh", "-c", script, "sh"])
        self.assertEqual(done.returncode, 4)
        self.assertEqual(trace.read_bytes()[:1], b"{")
