# SPDX-License-Identifier: Apache-2.0
"""castor memprof --html: the page of a real run, and files that are no traces."""

import json
import unittest
from xml.etree import ElementTree

from command_case import HAS_GEMINI, HAS_TORCH, CommandCase, run, without_capabilities

SVG = "{http://www.w3.org/2000/svg}"
LANES = ["compute", "host_update", "h2d", "d2h", "nvme_read", "nvme_write", "wait"]


def bars(page, lane):
    """The bars on a lane: (kind, left, right) of each, without the background."""
    group = next(g for g in page.iter(SVG + "g") if g.get("id") == "lane-" + lane)
    rects = [r for r in group.iter(SVG + "rect") if r.get("class") != "floor"]
    return [(r.get("class"), float(r.get("x")), float(r.get("x")) + float(r.get("width"))) for r in rects]


class MemprofPage(CommandCase):
    TRACE = {
        "castor_trace": 1,
        "model": "a<b>&c",
        "units": ["<embed>"],
        "samples": [[0, 10, 0, 0], [1000, 60, 5, 0]],
        "spans": [["compute", 0, 0, 500, 0, "forward"], ["h2d", 0, 0, 500, 2000]],
        "step_ends_ns": [0, 900],
    }

    def setUp(self):
        super().setUp()
        self.trace = self.text(json.dumps(self.TRACE).encode(), "trace.json")
        self.page = self.folder / "page.html"

    def parsed(self):
        return ElementTree.parse(self.page).getroot()

    def test_page_stands_alone(self):
        done = run("memprof", self.trace, "--html", self.page)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(str(self.page), done.stdout)
        page = self.parsed()
        self.assertEqual(page.find("body/h1").text, "a<b>&c")
        for element in page.iter():
            self.assertNotIn(element.tag.split("}")[-1], ("script", "link", "img", "iframe", "image", "use"))
            self.assertFalse({"src", "href"} & set(element.attrib))
        self.assertEqual(bars(page, "compute"), [("forward", 116, 549.3)])
        self.assertIn("<embed>", next(page.iter(SVG + "title")).text)

    def test_json_names_the_page(self):
        found = self.assert_result(run("memprof", self.trace, "--json", "--html", self.page))
        self.assertEqual(found["html"], str(self.page))
        self.assertEqual(found["lanes"]["h2d"]["bytes"], 2000)
        self.assertEqual(self.parsed().tag, "html")

    def test_older_files_and_empty_ones_have_a_page(self):
        for left_out in (("step_ends_ns",), ("step_ends_ns", "units", "model")):
            self.text(json.dumps({k: v for k, v in self.TRACE.items() if k not in left_out}).encode(), "trace.json")
            self.assert_result(run("memprof", self.trace, "--html", self.page, "--json"))
            self.assertIn("The whole run", "".join(self.parsed().itertext()))
        self.text(b'{"castor_trace": 1, "samples": [], "spans": []}', "trace.json")
        self.assert_result(run("memprof", self.trace, "--html", self.page, "--json"))
        self.assertIn("nothing to draw", "".join(self.parsed().itertext()))

    def test_page_that_cannot_be_written(self):
        nowhere = self.folder / "none" / "page"
        self.assert_error(
            run("memprof", self.trace, "--html", nowhere, "--json"), 4, nowhere, "No such file or directory", "mkdir -p"
        )
        self.assert_error(run("memprof", self.trace, "--html", self.folder, "--json"), 2, self.folder, "a folder; name a file")

    def test_folder_that_may_not_be_written(self):
        self.folder.chmod(0o555)
        done = run("memprof", self.trace, "--html", self.page, "--json", wrapper=without_capabilities())
        self.assert_error(done, 4, self.page, "Permission denied")

    def test_page_in_the_place_of_the_trace(self):
        self.assert_error(run("memprof", self.trace, "--html", self.trace, "--json"), 2, "is the file of TRACE")
        self.assertEqual(json.loads(self.trace.read_text()), self.TRACE)

    def test_option_without_a_file(self):
        self.assert_error(run("memprof", self.trace, "--html"), 2, "--html")


@unittest.skipUnless(HAS_TORCH and HAS_GEMINI, "no plugin gemini here")
class MemprofPageOfARun(CommandCase):
    MODEL = ["--model", "gpt:layers=2,hidden=64,heads=4,vocab=256", "--seq", "32", "--batch", "2", "--threads", "1"]
    TIERS = ["--plugin", "gemini", "--device-budget", "300KiB", "--host-budget", "1MiB", "--set", "chunk_bytes=64KiB"]

    def setUp(self):
        super().setUp()
        nvme, self.trace = self.folder / "nvme", self.folder / "trace.json"
        nvme.mkdir()
        options = [*self.MODEL, *self.TIERS, "--nvme", nvme, "--steps", "8", "--trace", self.trace]
        self.assert_result(run("train", *options, "--data", self.text(), "--json"))

    def test_trace_says_phases_and_where_steps_end(self):
        trace = json.loads(self.trace.read_text())
        self.assertEqual(len(trace["step_ends_ns"]), 8)
        self.assertEqual(trace["step_ends_ns"], sorted(trace["step_ends_ns"]))
        phases = {(span[0], *span[5:]) for span in trace["spans"]}
        self.assertEqual({p for p in phases if p[0] == "compute"}, {("compute", "forward"), ("compute", "backward")})
        self.assertEqual({len(p) for p in phases if p[0] != "compute"}, {1})

    def test_picture_of_a_step_shows_updates_beside_computing(self):
        page_path = self.folder / "page.html"
        self.assert_result(run("memprof", self.trace, "--html", page_path, "--json"))
        self.assertLess(page_path.stat().st_size, 1 << 20)
        page = ElementTree.parse(page_path).getroot()
        groups = [g.get("id") for g in page.iter(SVG + "g")]
        self.assertEqual([g for g in groups if g.startswith("lane-")], ["lane-" + lane for lane in LANES])
        self.assertEqual([g for g in groups if g.startswith("tier-")], ["tier-device", "tier-host", "tier-nvme"])
        for lane in LANES:
            for _, left, right in bars(page, lane):
                self.assertTrue(116 <= left < right <= 897, (lane, left, right))
        compute = bars(page, "compute")
        self.assertEqual({bar[0] for bar in compute}, {"forward", "backward"})
        begin, end = compute[0][1], compute[-1][2]
        updates = bars(page, "host_update")
        self.assertEqual({bar[0] for bar in updates}, {"update"})
        self.assertTrue([u for u in updates if begin <= u[1] and u[2] <= end], (begin, end, updates))
