# SPDX-License-Identifier: Apache-2.0
"""castor itself, castor check, memprof, plan, estimate and plugins list."""

import json
import os
import pathlib
import unittest

from command_case import CASTOR, HAS_TORCH, STUBS, CommandCase, accepted_plugins, run, without_capabilities


class CommandLine(CommandCase):
    def test_help_shows_every_command(self):
        done = run("--help")
        self.assertEqual(done.returncode, 0)
        for command in ("check", "train", "bench", "plan", "estimate", "plugins", "memprof"):
            self.assertIn(f"\n  {command} ", done.stdout)

    def test_every_command_has_help(self):
        for command in (["check"], ["train"], ["bench"], ["bench", "io"], ["bench", "adam"], ["plugins"], ["plan"], ["estimate"], ["plugins", "list"], ["memprof"]):
            done = run(*command, "--help")
            self.assertEqual(done.returncode, 0, command)
            self.assertTrue(done.stdout.startswith(f"usage: castor {command[0]}"), done.stdout)

    def test_train_help_shows_defaults(self):
        text = run("train", "--help").stdout
        for shown in (
            "--plugin NAME|PATH (=gemini)",
            "--steps N (=100)",
            "--lr X (=0.0006)",
            "--lr-schedule constant|linear|cosine|multistep|onecycle|polynomial|exponential",
            "--warmup-steps N (=0)",
            "--final-div-factor X (=10000)",
            "--initial-scale X (=65536)",
            "--growth-interval N (=1000)",
            "--hysteresis N (=2)",
            "--precision bf16|fp16|fp32 (=bf16)",
            "--device cpu|cuda (=cpu)",
        ):
            self.assertIn(shown, text)

    def test_version(self):
        self.assertRegex(run("--version").stdout, r"^castor \d+\.\d+\.\d+\n$")

    def test_without_a_command_the_help_is_an_error(self):
        done = run()
        self.assertEqual(done.returncode, 2)
        self.assertIn("usage: castor COMMAND", done.stderr)

    def test_unknown_command_suggests_the_nearest(self):
        self.assert_error(run("trian"), 2, "unknown command 'trian'; did you mean 'train'?")

    def test_unknown_command_far_from_all_lists_them(self):
        self.assert_error(
            run("serve", "--json"), 2, "unknown command 'serve'; there are check, train, bench, plan, estimate, plugins, memprof"
        )

    def test_option_given_twice(self):
        self.assert_error(run("train", "--model", "mlp", "--model", "mlp", "--json"), 2, "--model", "more than once")

    def test_unknown_option_suggests_the_nearest(self):
        self.assert_error(
            run("train", "--modle", "mlp", "--json"), 2, "unknown option '--modle'; did you mean '--model'?"
        )

    def test_unknown_word_after_plugins(self):
        self.assert_error(run("plugins", "lits"), 2, "lits", "did you mean 'list'?")
        self.assert_error(run("plugins"), 2, "castor plugins list")


class Check(CommandCase):
    NAMES = {
        "version",
        "compiler",
        "torch",
        "nccl",
        "cuda",
        "memory",
        "cpus",
        "memlock",
        "simd",
        "io_uring",
        "io_engine",
        "registered_buffers",
        "o_direct",
        "o_tmpfile",
        "free_space",
        "plugins",
    }

    def test_json_is_a_flat_object_of_findings(self):
        found = self.assert_result(run("check", "--json", "--dir", self.folder))
        self.assertEqual(set(found), self.NAMES)
        for name, finding in found.items():
            self.assertEqual(set(finding), {"ok", "detail"}, name)
            self.assertIsInstance(finding["ok"], bool)
            self.assertNotEqual(finding["detail"], "", name)

    def test_people_get_a_line_each(self):
        done = run("check", "--dir", self.folder)
        self.assertEqual(done.returncode, 0)
        self.assertEqual(len(done.stdout.splitlines()), len(self.NAMES))
        for line in done.stdout.splitlines():
            self.assertIn(line[0], "✓✗")

    def test_missing_folder_is_a_finding(self):
        found = self.assert_result(run("check", "--json", "--dir", self.folder / "none"))
        self.assertFalse(found["o_direct"]["ok"])
        self.assertIn("none", found["o_direct"]["detail"])

    def test_folder_that_cannot_be_written_is_a_finding(self):
        os.chmod(self.folder, 0o555)
        found = self.assert_result(run("check", "--json", "--dir", self.folder, wrapper=without_capabilities()))
        self.assertFalse(found["free_space"]["ok"])

    def test_nothing_is_left_in_the_folder(self):
        run("check", "--dir", self.folder)
        self.assertEqual(list(self.folder.iterdir()), [])


class Memprof(CommandCase):
    TRACE = {
        "castor_trace": 1,
        "units": ["embed"],
        "budget_bytes": {"device": 100},
        "samples": [[0, 10, 0, 0], [1000, 60, 5, 0]],
        "spans": [["h2d", 0, 0, 500, 2000], ["wait", 0, 0, 100, 0]],
    }

    def trace(self, content):
        return self.text(content.encode(), "trace.json")

    def test_summary_names_peak_and_bound(self):
        done = run("memprof", self.trace(json.dumps(self.TRACE)))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("60 % of 100 B", done.stdout)
        self.assertIn("bound by h2d: busy 50 %", done.stdout)

    def test_json(self):
        found = self.assert_result(run("memprof", self.trace(json.dumps(self.TRACE)), "--json"))
        self.assertEqual(found["tiers"]["device"]["peak_bytes"], 60)
        self.assertEqual(found["lanes"]["h2d"]["bytes"], 2000)

    def test_missing_file(self):
        self.assert_error(run("memprof", self.folder / "none", "--json"), 4, "none", "No such file or directory")

    def test_ill_formed_files(self):
        for content in (
            "",
            "{",
            "[]",
            "{}",
            json.dumps({"castor_trace": 1}),
            json.dumps({**self.TRACE, "spans": [[1]]}),
        ):
            self.assert_error(
                run("memprof", self.trace(content), "--json"), 1, "is not a trace that this version can read"
            )

    def test_which_trace(self):
        self.assert_error(run("memprof"), 2, "which trace?")


class Plan(CommandCase):
    # Three chunks of 10 bytes in turn on the device, 10 s of compute each; links of 1 byte per second.
    TRACE = {
        "castor_trace": 1,
        "chunks": [{"id": id, "kind": "payload", "bytes": 10} for id in (0, 1, 7)],
        "room_bytes": {"device": 30, "host": None, "nvme": 0},
        "link_bytes_per_s": {"h2d": 1, "d2h": 1, "nvme_read": 1, "nvme_write": 1},
        "moments": [["forward", m, 10_000_000_000, [[id, "device", "read", False]]] for m, id in enumerate((0, 1, 7))],
        "samples": [],
        "spans": [],
    }

    def trace(self, **changes):
        return self.text(json.dumps({**self.TRACE, **changes}).encode(), "trace.json")

    def plan(self, *arguments, **changes):
        return run("plan", "--trace", self.trace(**changes), *arguments, "--json")

    def test_with_room_for_all_the_step_is_its_computing(self):
        found = self.assert_result(self.plan())
        self.assertEqual((found["step_s"], found["moved_bytes_per_step"]["h2d"]), (30, 0))
        self.assertEqual(found["peak_bytes"]["device"], 30)
        self.assertEqual(found["bound"]["by"], "compute")

    def test_a_smaller_budget_moves_and_the_bound_says_how_little(self):
        found = self.assert_result(self.plan("--device-budget", "20"))
        self.assertEqual(found["link_s"], found["link_lower_bound_s"])
        self.assertGreater(found["moved_bytes_per_step"]["h2d"], 0)
        self.assertLessEqual(found["peak_bytes"]["device"], 20)

    def test_a_chunk_that_may_not_rest_on_the_device_moves_for_each_use(self):
        chunks = [dict(chunk) for chunk in self.TRACE["chunks"]]
        chunks[1]["rest"] = "host"
        found = self.assert_result(self.plan(chunks=chunks))
        self.assertEqual(found["link_s"], 0, "uses so close together are one")
        found = self.assert_result(self.plan(chunks=chunks, moments=self.TRACE["moments"] + 17 * [["forward", 3, 0, []]]))
        self.assertEqual(found["link_s"], 10)
        self.assert_error(self.plan(chunks=[{**chunks[1], "rest": "drawer"}]), 1, "drawer")

    def test_bytes_that_arrive_take_the_link_down(self):
        moments = [*self.TRACE["moments"][:2], ["backward", 2, 10_000_000_000, [[7, "host", "overwrite", False, 40]]]]
        found = self.assert_result(self.plan(moments=moments))
        self.assertEqual((found["moved_bytes_per_step"]["d2h"], found["bound"]["by"]), (40, "d2h"))

    def test_what_the_device_holds_beside_chunks_is_in_its_peak_and_its_budget(self):
        found = self.assert_result(self.plan(non_model_bytes=100))
        self.assertEqual(found["peak_bytes"]["device"], 130)
        found = self.assert_result(self.plan("--device-budget", "120", non_model_bytes=100))
        self.assertLessEqual(found["peak_bytes"]["device"], 120)
        self.assertGreater(found["moved_bytes_per_step"]["h2d"], 0)
        self.assert_error(self.plan("--device-budget", "99", non_model_bytes=100), 3, "activations and workspaces take 100 B")

    def test_under_the_recorded_budget_chunks_have_the_recorded_room(self):
        changes = {"budget_bytes": {"device": 127}, "room_bytes": {**self.TRACE["room_bytes"], "device": 20}, "non_model_bytes": 100}
        as_recorded = self.assert_result(self.plan(**changes))
        again = self.assert_result(self.plan("--device-budget", "127", **changes))
        self.assertEqual(as_recorded, again)
        self.assertGreater(again["moved_bytes_per_step"]["h2d"], 0)
        self.assertEqual(self.assert_result(self.plan("--device-budget", "137", **changes))["moved_bytes_per_step"]["h2d"], 0)
        shown = run("plan", "--trace", self.trace(**changes)).stdout
        self.assertRegex(shown, r"device +120 B +127 B")
        self.assert_error(self.plan("--device-budget", "106", **changes), 3, "take 107 B")

    def with_non_model_bytes(self, *by_moment):
        """The iteration with these non-model bytes, and 20 more bytes of chunks in its second moment."""
        moments = [[*moment, n_bytes] for moment, n_bytes in zip(self.TRACE["moments"], by_moment)]
        moments[1][3] = [*moments[1][3], [9, "device", "overwrite", True]]
        return {
            "chunks": [*self.TRACE["chunks"], {"id": 9, "kind": "gradient", "bytes": 20}],
            "room_bytes": {**self.TRACE["room_bytes"], "device": 60},
            "moments": moments,
            "non_model_bytes": 100,
        }

    def test_the_peak_adds_what_is_there_at_the_same_moment(self):
        for by_moment, peak in (
            ((100, 40, 90), 130),  # 30 + 100, 50 + 40, 30 + 90
            ((100, 85, 90), 135),
            ((100, None, 90), 150),  # unknown: the maximum
        ):
            found = self.assert_result(self.plan(**self.with_non_model_bytes(*by_moment)))
            self.assertEqual(found["peak_bytes"]["device"], peak)

    def test_the_peak_holds_the_allocators_fragments_but_chunks_have_the_same_room(self):
        changes = self.with_non_model_bytes(100, 40, 90)
        found = self.assert_result(self.plan(allocator_bytes=7, **changes))
        self.assertEqual(found["peak_bytes"]["device"], 137)
        self.assert_result(self.plan("--device-budget", "130", allocator_bytes=7, **changes))
        self.assert_error(self.plan("--device-budget", "129", allocator_bytes=7, **changes), 3, "by 1 B")

    def test_bytes_beside_chunks_that_are_no_number_are_named(self):
        for wrong in (-1, 1.5, "many"):
            changes = self.with_non_model_bytes(100, wrong, 90)
            self.assert_error(self.plan(**changes), 1, "what moment 1 holds beside chunks", "not a number of bytes")
            self.assert_error(self.plan(allocator_bytes=wrong), 1, "allocator_bytes", "not a number of bytes")

    def test_a_slower_link_binds(self):
        found = self.assert_result(self.plan("--device-budget", "10"))
        self.assertEqual((found["step_s"], found["bound"]["by"]), (60, "compute"))
        slower = self.trace(link_bytes_per_s={**self.TRACE["link_bytes_per_s"], "h2d": 0.5})
        found = self.assert_result(run("plan", "--trace", slower, "--device-budget", "10", "--json"))
        self.assertEqual((found["step_s"], found["bound"]["by"]), (90, "h2d"))
        found = self.assert_result(run("plan", "--trace", slower, "--device-budget", "10", "--h2d-rate", "1", "--json"))
        self.assertEqual(found["step_s"], 60)

    def test_what_does_not_fit_says_what_would(self):
        last = self.assert_error(self.plan("--device-budget", "9"), 3, "moment 0 needs 10 B", "raise --device-budget by 1 B")
        self.assertFalse(last["fits"])
        self.assert_error(self.plan("--device-budget", "10", "--host-budget", "5"), 3, "--nvme")
        found = self.assert_result(self.plan("--device-budget", "10", "--host-budget", "10", "--nvme", "on"))
        self.assertEqual(found["peak_bytes"], {"device": 10, "host": 10, "nvme": 20})

    def test_people_read_it(self):
        done = run("plan", "--trace", self.trace(), "--device-budget", "20")
        self.assertEqual(done.returncode, 0, done.stderr)
        for words in ("3 moments, 3 chunks", "no plan moves 0.0 % less", "bound by"):
            self.assertIn(words, done.stdout)

    def test_files_that_are_no_recording(self):
        need = [0, "device", "read", False]
        for changes in (
            {"moments": []},
            {"moments": [["forward", 0, 1, [[3, "device", "read", False]]]]},
            {"moments": [["forward", 0, 1, [need, need]]]},
            {"moments": [["forward", 0, 1, [[0, "nvme", "read", False]]]]},
            {"moments": [["forward", 0, 1, [[0, "device", "write", False]]]]},
            {"moments": [["forward", 0, 1, [[0, "device", "read", True]]]]},
            {"chunks": [{"id": 0, "bytes": 0}]},
            {"chunks": 2 * self.TRACE["chunks"]},
            {"link_bytes_per_s": {"h2d": 0}},
            {"link_bytes_per_s": {**self.TRACE["link_bytes_per_s"], "nvme_share": 2}},
        ):
            self.assert_error(self.plan(**changes), 1, "is not a trace that this version can read")
        self.assert_error(run("plan", "--trace", self.folder / "none", "--json"), 4, "none")

    def test_wrong_arguments(self):
        self.assert_error(run("plan"), 2, "which trace?")
        self.assert_error(self.plan("--nvme", "maybe"), 2, "on or off")
        self.assert_error(self.plan("--h2d-rate", "0"), 2, "above 0")


@unittest.skipUnless(HAS_TORCH, "built without LibTorch")
class Estimate(CommandCase):
    GPT = ["--model", "gpt:layers=12,hidden=1024,heads=16,vocab=50304", "--batch", "4", "--recompute"]

    def estimate(self, *arguments):
        return run("estimate", *arguments, "--json")

    def test_json_fields(self):
        found = self.assert_result(self.estimate("--model", "gpt2-1.5b"))
        for field in ("fits", "step_s", "bound", "params", "tokens_per_s", "moved_bytes_per_step", "non_model_bytes"):
            self.assertIn(field, found)
        self.assertTrue(found["fits"])
        self.assertEqual(found["params"], 1_557_686_400)
        self.assertEqual(set(found["peak_bytes"]), {"device", "host", "nvme"})
        self.assertEqual(set(found["bound"]), {"seconds", "by", "share"})
        self.assertAlmostEqual(found["tokens_per_s"], 8 * 1024 / found["step_s"])

    def test_what_fits_on_the_device_is_bound_by_computing(self):
        found = self.assert_result(self.estimate("--model", "gpt2-1.5b", "--recompute"))
        self.assertEqual(found["moved_bytes_per_step"], {"h2d": 0, "d2h": 0, "nvme_read": 0, "nvme_write": 0})
        self.assertEqual((found["bound"]["by"], found["wait_s"]), ("compute", 0))
        self.assertGreater(found["peak_bytes"]["device"], 14 * found["params"] + found["non_model_bytes"] - 1)
        # Eight operations per parameter and token at the given rate, and attention: 5 % at this length.
        self.assertAlmostEqual(found["compute_s"] - found["update_s"], 8 * found["params"] * 8192 / 450e12, delta=0.015)

    def lost_bytes(self, found):
        """That updates on the host lose to copies beside them, which use the host's memory too: docs/planning.md."""
        copied = found["moved_bytes_per_step"]["h2d"] + found["moved_bytes_per_step"]["d2h"]
        return 0.7 * copied * min(1, found["update_beside_s"] / found["step_s"])

    def lost_s(self, found):
        """The same in seconds, at the rate where none is stated."""
        return self.lost_bytes(found) / (126 * 2**30)

    def test_states_on_the_host_go_by_the_hosts_rate(self):
        # Each state is read and written, the gradient read, the weight written, and also read if the master is split.
        for states, options in (
            (12, ["--split-master", "off"]),
            (10, []),
            (8, ["--moments", "mixed"]),
            (6, ["--moments", "bf16"]),
            (8, ["--moments", "bf16", "--split-master", "off"]),
            (6, ["--optimizer", "sgd"]),
            (4, ["--optimizer", "sgd", "--moments", "bf16"]),
            (8, ["--optimizer", "sgd", "--split-master", "off"]),
            (6, ["--optimizer", "lars"]),
            (10, ["--optimizer", "lamb"]),
            (12, ["--optimizer", "lamb", "--split-master", "off"]),
        ):
            on_host = [*self.GPT, "--policy", "cpu", "--stream-optim-frac", "0", "--host-update-rate", "1000000000"]
            found = self.assert_result(self.estimate(*on_host, *options))
            touched = 2 * states + (4 if "off" in options else 6) + (4 if "lars" in options else 0)
            if "lamb" in options:  # norms first: states and gradient once more, and the weights of split masters
                touched += states + (2 if "off" in options else 4)
            expected = (found["params"] * touched + self.lost_bytes(found)) / 1e9
            self.assertAlmostEqual(found["update_s"] / expected, 1, delta=0.001)
            self.assertGreaterEqual(found["peak_bytes"]["host"], states * found["params"])

    def raised(self, done, option):
        """The budget that the message proposes for `option`."""
        self.assert_error(done, 3, f"raise {option} to ")
        return done.stderr.split(f"raise {option} to ")[1].split("iB")[0].replace(" ", "") + "iB"

    def test_what_does_not_fit_says_what_would(self):
        budgets = {"--device-budget": "1GiB", "--host-budget": "1GiB"}

        def estimate():
            return self.estimate(*self.GPT, *(word for budget in budgets.items() for word in budget))

        raised = []  # in the order of a training, which finds some needs at its start and some in its first step
        while (done := estimate()).returncode != 0 and len(raised) < 6:
            raised.append("--host-budget" if "--host-budget" in done.stderr else "--device-budget")
            budgets[raised[-1]] = self.raised(done, raised[-1])
        found = self.assert_result(done)
        self.assertEqual(set(raised), set(budgets))
        enough = [*self.GPT, "--device-budget", budgets["--device-budget"], "--host-budget"]
        self.assertLessEqual(found["peak_bytes"]["device"], found["non_model_bytes"] + 2 * found["params"])
        last = self.assert_error(self.estimate(*enough, "1GiB"), 3, "--nvme")
        self.assertEqual((last["fits"], last["params"]), (False, found["params"]))

    def test_nvme_takes_what_the_host_cannot(self):
        found = self.assert_result(self.estimate(*self.GPT, "--device-budget", "2GiB", "--host-budget", "1GiB", "--nvme", "on"))
        self.assertLessEqual(found["peak_bytes"]["host"], 2**30)
        self.assertGreater(found["peak_bytes"]["nvme"], 0)
        self.assertGreater(found["moved_bytes_per_step"]["nvme_read"], 0)
        self.assertGreaterEqual(found["step_s"] * (1 + 1e-9), found["bound"]["seconds"])

    def test_states_at_home_on_nvme_are_read_and_written_each_step(self):
        found = self.assert_result(
            self.estimate(*self.GPT, "--nvme", "on", "--nvme-offload-fraction", "1", "--host-budget", "1GiB")
        )
        states = 10 * found["params"]
        for way in ("nvme_read", "nvme_write"):
            self.assertAlmostEqual(found["moved_bytes_per_step"][way] / states, 1, delta=0.001)
        self.assertEqual(found["bound"]["by"], "nvme")
        self.assert_error(self.estimate(*self.GPT, "--nvme-offload-fraction", "0.5"), 2, "needs --nvme on")
        self.assert_error(self.estimate(*self.GPT, "--nvme", "on", "--nvme-offload-fraction", "2"), 2, "0 to 1")

    def test_more_budget_never_makes_it_slower(self):
        updated_here = [*self.GPT, "--stream-optim-frac", "0"]
        # Above 512 MiB and 2 GiB the chunks stay the same. A plan that moves less may still wait a little longer: 2 %.
        for option, others in (
            ("--device-budget", ["--host-budget", "8GiB"]),
            ("--device-budget", ["--host-budget", "2GiB", "--nvme", "on"]),
            ("--host-budget", ["--device-budget", "2GiB", "--nvme", "on"]),
        ):
            steps = [
                self.assert_result(self.estimate(*updated_here, *others, option, f"{gib}GiB"))["step_s"]
                for gib in (2, 3, 6)
            ]
            for i, step_s in enumerate(steps):
                self.assertLessEqual(step_s, 1.02 * min(steps[: i + 1]), (option, others, steps))
            self.assertLessEqual(steps[-1], (1 + 1e-9) * steps[0])  # the smallest may hide all that moves

    def test_faster_parts_never_make_it_slower(self):
        tight = [*self.GPT, "--device-budget", "2GiB", "--host-budget", "2GiB", "--nvme", "on"]
        for overlap, tolerance in (("off", 1.02), ("on", 1.15)):  # with overlap a different plan, which may wait longer
            case = [*tight, "--overlap-updates", overlap]
            slow = self.assert_result(self.estimate(*case))["step_s"]
            for option, rate in (("--nvme-write-rate", "6GiB"), ("--nvme-read-rate", "6GiB"), ("--tflops", "800")):
                step_s = self.assert_result(self.estimate(*case, option, rate))["step_s"]
                self.assertLessEqual(step_s, tolerance * slow, (overlap, option))

    def test_updates_beside_the_thread_shorten_the_step(self):
        here = self.assert_result(self.estimate(*self.GPT, "--policy", "cpu", "--overlap-updates", "off"))
        beside = self.assert_result(self.estimate(*self.GPT, "--policy", "cpu", "--stream-optim-frac", "0"))
        self.assertEqual(here["update_beside_s"], 0)
        self.assertAlmostEqual(beside["update_beside_s"], here["update_s"] + self.lost_s(beside), delta=1e-5)
        self.assertLess(beside["step_s"], here["step_s"])
        self.assertGreaterEqual(beside["step_s"], max(beside["update_beside_s"], beside["compute_s"]))

    def test_states_come_to_the_device_where_the_host_is_slow(self):
        slow = [*self.GPT, "--policy", "cpu", "--device-budget", "2GiB", "--clip", "1", "--host-update-rate", "20GiB"]
        alone = self.assert_result(self.estimate(*slow, "--stream-optim-frac", "0"))
        both = self.assert_result(self.estimate(*slow))
        self.assertEqual(alone["streamed_chunks"], 0)
        self.assertGreater(both["streamed_chunks"], 0)
        self.assertLess(both["step_s"], alone["step_s"])
        self.assertGreater(both["moved_bytes_per_step"]["h2d"], alone["moved_bytes_per_step"]["h2d"])
        self.assert_error(self.estimate(*slow, "--stream-optim-frac", "some"), 2, "takes auto, or 0 to 1")

    def test_recomputing_takes_longer_and_less_room(self):
        plain = self.assert_result(self.estimate("--model", "gpt2-355m"))
        again = self.assert_result(self.estimate("--model", "gpt2-355m", "--recompute"))
        self.assertGreater(again["compute_s"], plain["compute_s"])
        self.assertLess(again["non_model_bytes"], plain["non_model_bytes"])

    def test_clipping_has_updates_wait_for_the_end_of_backward(self):
        on_host = [*self.GPT, "--policy", "cpu", "--stream-optim-frac", "0"]
        plain = self.assert_result(self.estimate(*on_host))
        clipped = self.assert_result(self.estimate(*on_host, "--clip", "1.0", "--speculative-updates", "off"))
        backward_s = 3 / 4 * plain["compute_s"]  # with recomputation: one part forward, three backward
        self.assertGreater(clipped["step_s"], backward_s + clipped["update_beside_s"])
        self.assertLess(plain["step_s"], clipped["step_s"])
        speculative = self.assert_result(self.estimate(*on_host, "--clip", "1.0"))
        self.assertEqual(speculative["speculative_chunks"], speculative["chunks"])
        alone_s = [found["update_s"] - self.lost_s(found) for found in (plain, clipped, speculative)]
        self.assertAlmostEqual(max(alone_s), min(alone_s), delta=1e-5)
        self.assertLess(speculative["step_s"], clipped["step_s"])
        self.assertGreater(speculative["peak_bytes"]["host"], clipped["peak_bytes"]["host"])

    def test_people_read_it(self):
        done = run("estimate", "--model", "vit-l", "--batch", "64", "--device-budget", "12GiB")
        self.assertEqual(done.returncode, 0, done.stderr)
        for words in ("304.3 M parameters", "chunks of", "12.0 GiB", "h2d", "bound by", "samples/s"):
            self.assertIn(words, done.stdout)

    def test_help_shows_defaults(self):
        text = run("estimate", "--help").stdout
        for shown in ("--device-budget SIZE (=139GiB)", "--h2d-rate SIZE (=51.5GiB)", "--batch B (=8)", "mixtral-8x7b"):
            self.assertIn(shown, text)

    def test_wrong_arguments(self):
        self.assert_error(self.estimate(), 2, "--model is missing;")
        self.assert_error(self.estimate("--model", "llama4"), 2, "no model `llama4`", "llama3-70b")
        self.assert_error(self.estimate("--model", "gpt:layer=4"), 2, "`layer=4`", "layers")
        for option, text, words in (
            ("--nvme", "maybe", "on or off"),
            ("--policy", "const", "auto|cuda|cpu"),
            ("--precision", "fp16", "bf16|fp32"),
            ("--batch", "0", "a whole number from 1"),
            ("--seq", "1025", "positions for 1 to 1024"),
            ("--tflops", "0", "above 0"),
            ("--clip", "-1", "0 or more"),
            ("--device-budget", "much", "not a size"),
            ("--host-update-rate", "0", "above 0"),
            ("--d2h-rate", "0", "above 0"),
        ):
            named = [] if option == "--seq" else [option]
            self.assert_error(self.estimate("--model", "gpt2-124m", option, text), 2, words, *named)


class Plugins(CommandCase):
    def test_refused_ones_come_with_their_reason(self):
        found = self.assert_result(run("plugins", "list", "--json", CASTOR_PLUGIN_PATH=STUBS))["plugins"]
        refused = {pathlib.Path(plugin["path"]).name: plugin["refused"] for plugin in found if not plugin["ok"]}
        for stub, word in (
            ("not_elf", ""),
            ("no_symbol", "castor_plugin_query_v2"),
            ("wrong_magic", "magic"),
            ("small_size", "bytes"),
            ("other_major", "ABI"),
            ("unknown_capability", "capabilit"),
            ("other_torch", "torch"),
        ):
            self.assertIn(word, refused[f"libcastor_stub_{stub}.so"])

    def test_people_see_accepted_and_refused(self):
        text = run("plugins", "list", CASTOR_PLUGIN_PATH=STUBS).stdout
        self.assertIn("✗ refused: ", text)
        self.assertIn("✓ ", text)

    def test_the_build_trees_own_plugins_are_found(self):
        self.assertIn("minimal_c", accepted_plugins())

    def test_verbose_shows_the_options(self):
        short, long = run("plugins", "list").stdout, run("plugins", "list", "-v").stdout
        self.assertTrue(len(long) >= len(short) and short.splitlines()[0] in long)
