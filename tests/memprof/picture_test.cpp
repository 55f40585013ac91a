// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <castor/memprof/html.h>

#include "memory_picture.h"
#include "ranges.h"
#include "step_lanes.h"
#include "step_picture.h"
#include "svg.h"

namespace castor::memprof {
namespace {

using Strings = std::vector<std::string>;

// Steps end at 1000, 8800 and 12000 ns. The last complete one, from 1000 to 8800, is 780 pixels wide: 10 ns per pixel
// from x = 116 on.
constexpr const char* kPictured = R"({
  "castor_trace": 1, "units": ["embed", "head"], "step_ends_ns": [1000, 8800, 12000],
  "chunks": [{"id": 4, "kind": "payload", "bytes": 2048}], "budget_bytes": {"device": 1000},
  "samples": [[0, 100, 0, 0], [6000, 800, 0, 0], [12000, 400, 0, 0]],
  "spans": [["compute", 0, 100, 900, 0, "forward"], ["compute", 0, 1000, 4000, 0, "forward"],
            ["compute", 1, 4900, 8800, 0, "backward"], ["host_update", 4, 500, 2500, 4000],
            ["host_update", 4, 4400, 5400, 4000], ["h2d", 4, 3000, 3004, 10], ["h2d", 4, 3006, 3010, 10],
            ["h2d", 4, 3012, 3016, 10], ["h2d", 4, 3100, 3200, 600], ["h2d", 4, 3204, 3208, 10],
            ["d2h", 4, 8800, 9900, 77], ["wait", 1, 4000, 4900, 0]]
})";

Trace parse(const std::string& text) { return parse_trace(text, "t.json").value(); }
Trace pictured() { return parse(kPictured); }
Trace with_spans(const std::string& spans, const std::string& steps = "[0, 7800]") {
  return parse(R"({"castor_trace": 1, "samples": [], "units": ["<a&b>"], "step_ends_ns": )" + steps +
               R"(, "spans": [)" + spans + "]}");
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

std::vector<std::pair<std::int64_t, std::int64_t>> pairs(const std::vector<Range>& ranges) {
  std::vector<std::pair<std::int64_t, std::int64_t>> found;
  for (const Range& range : ranges) found.emplace_back(range.start_ns, range.end_ns);
  return found;
}
std::pair<std::int64_t, std::int64_t> step_of(const std::string& spans, const std::string& steps) {
  return pairs({last_whole_step(with_spans(spans, steps)).range}).front();
}

StepLane lane(const Trace& trace, const std::string& name, std::int64_t narrow_ns = 10) {
  for (const StepLane& lane : step_lanes(trace, last_whole_step(trace).range, narrow_ns))
    if (lane.lane == name) return lane;
  throw std::runtime_error("no lane " + name);
}

TEST(Ranges, UniteIsAscendingAndApart) {
  const auto united = unite({{5, 9}, {0, 2}, {2, 3}, {6, 7}, {4, 4}, {20, 30}});
  EXPECT_EQ(pairs(united), (decltype(pairs(united)){{0, 3}, {5, 9}, {20, 30}}));
  EXPECT_EQ(length_ns(united), 17);
  EXPECT_EQ(shared_ns(united, {{1, 6}, {8, 25}}), 2 + 1 + 1 + 5);
  EXPECT_EQ(shared_ns(united, {}), 0);
}

TEST(LastWholeStep, IsTheLastButOne) {
  EXPECT_EQ(pairs({last_whole_step(pictured()).range}),
            (std::vector{std::pair<std::int64_t, std::int64_t>{1000, 8800}}));
  EXPECT_TRUE(last_whole_step(pictured()).one_step);
}

TEST(LastWholeStep, OfFewStepsIsWhatThereIs) {
  const std::string spans = R"(["h2d", 0, 1, 2, 0], ["compute", 0, 3, 5, 0], ["compute", 0, 6, 40, 0])";
  EXPECT_EQ(step_of(spans, "[10, 20]"), std::pair(std::int64_t{10}, std::int64_t{20}));
  EXPECT_EQ(step_of(spans, "[10]"), std::pair(std::int64_t{3}, std::int64_t{10}));
  EXPECT_EQ(step_of(spans, "[]"), std::pair(std::int64_t{1}, std::int64_t{40}));
  EXPECT_FALSE(last_whole_step(with_spans(spans, "[]")).one_step);
}

TEST(StepLanes, ShowWhatLiesWithinTheStepAlone) {
  EXPECT_TRUE(lane(pictured(), "d2h").bars.empty());
  const StepLane compute = lane(pictured(), "compute");
  ASSERT_EQ(compute.bars.size(), 2u);
  EXPECT_EQ(compute.bars[0].name, "embed");
  EXPECT_EQ(compute.bars[0].kind, "forward");
  EXPECT_EQ(compute.bars[0].range.start_ns, 1000);
  EXPECT_EQ(compute.bars[1].kind, "backward");
  const StepLane update = lane(pictured(), "host_update");
  EXPECT_EQ(update.bars[0].range.start_ns, 1000) << "what began before the step is cut";
  EXPECT_EQ(update.bars[0].ns, 2000) << "its time is that of all of it";
  EXPECT_EQ(update.bars[0].kind, "update");
  EXPECT_DOUBLE_EQ(update.bytes, 4000 * 0.75 + 4000);
}

TEST(StepLanes, SayHowMuchRanBesideComputing) {
  const StepLane update = lane(pictured(), "host_update");
  EXPECT_EQ(update.busy_ns, 1500 + 1000);
  EXPECT_EQ(update.beside_compute_ns, 1500 + 500);
  EXPECT_EQ(lane(pictured(), "wait").beside_compute_ns, 0);
}

TEST(StepLanes, NarrowNeighboursBecomeOne) {
  const StepLane h2d = lane(pictured(), "h2d");
  ASSERT_EQ(h2d.bars.size(), 3u);
  EXPECT_EQ(pairs({h2d.bars[0].range, h2d.bars[1].range, h2d.bars[2].range}),
            (decltype(pairs({})){{3000, 3016}, {3100, 3200}, {3204, 3208}}));
  EXPECT_EQ(h2d.bars[0].n_spans, 3u);
  EXPECT_EQ(h2d.bars[0].ns, 12);
  EXPECT_EQ(h2d.bars[0].bytes, 30u);
  EXPECT_EQ(h2d.bars[0].name, "");
  EXPECT_EQ(h2d.bars[1].n_spans, 1u) << "one that can be seen stays alone";
  EXPECT_EQ(h2d.busy_ns, 4 * 4 + 100) << "gaps are not counted";
}

TEST(StepLanes, ThousandsOfSpansAreFewBars) {
  std::string spans;
  for (int i = 0; i < 3900; ++i)
    spans += (i > 0 ? ", " : "") + std::string("[\"h2d\", 0, ") + std::to_string(2 * i) + ", " +
             std::to_string(2 * i + 1) + ", 8]";
  const StepLane h2d = lane(with_spans(spans), "h2d");
  ASSERT_EQ(h2d.bars.size(), 1u);
  EXPECT_EQ(h2d.bars[0].n_spans, 3900u);
  EXPECT_EQ(h2d.busy_ns, 3900);
  EXPECT_LT(step_picture(with_spans(spans)).size(), 10'000u);
}

TEST(StepLanes, WhatOverlapsGetsRows) {
  const StepLane h2d = lane(with_spans(R"(["h2d", 0, 0, 100, 1], ["h2d", 1, 50, 200, 1], ["h2d", 2, 100, 300, 1],
      ["wait", 0, 0, 10, 0])"),
                            "h2d");
  EXPECT_EQ(h2d.n_rows, 2u);
  EXPECT_EQ(h2d.bars[0].row, 0u);
  EXPECT_EQ(h2d.bars[1].row, 1u);
  EXPECT_EQ(h2d.bars[2].row, 0u);
}

TEST(StepLanes, HaveAtMostFourRows) {
  std::string spans;
  for (int i = 0; i < 6; ++i)
    spans += (i > 0 ? ", " : "") + std::string("[\"nvme_read\", 0, ") + std::to_string(i) + ", 900, 1]";
  EXPECT_EQ(lane(with_spans(spans), "nvme_read").n_rows, 4u);
}

TEST(StepLanes, UnknownLanesComeLast) {
  const auto lanes = step_lanes(with_spans(R"(["nccl", 3, 0, 100, 1])"), {0, 7800}, 10);
  ASSERT_EQ(lanes.size(), 8u);
  EXPECT_EQ(lanes.front().lane, "compute");
  EXPECT_EQ(lanes.back().lane, "nccl");
  EXPECT_EQ(lanes.back().bars.size(), 1u);
}

TEST(PhasesOf, JoinsWhatFollowsInOnePhase) {
  const auto phases = phases_of(with_spans(R"(["compute", 0, 0, 10, 0, "forward"], ["compute", 0, 20, 30, 0, "forward"],
      ["compute", 4, 30, 35, 9, "update"], ["compute", 0, 40, 60, 0, "backward"])"),
                                {0, 7800});
  ASSERT_EQ(phases.size(), 2u);
  EXPECT_EQ(phases[0].range.end_ns, 30);
  EXPECT_EQ(phases[1].phase, "backward");
}

TEST(StepPicture, BarsLieWhereTheirTimesAre) {
  const std::string svg = step_picture(pictured());
  EXPECT_TRUE(has(svg, R"(<rect class="forward" x="116.0" y="84.0" width="300.0" height="34.0"><title>embed)")) << svg;
  EXPECT_TRUE(has(svg, R"(<rect class="backward" x="506.0" y="84.0" width="390.0" height="34.0"><title>head)"));
  EXPECT_TRUE(has(svg, R"(<rect class="update" x="116.0" y="126.0" width="150.0")"));
  EXPECT_TRUE(has(svg, R"(<rect class="update" x="456.0" y="126.0" width="100.0")"));
  EXPECT_TRUE(has(svg, R"(<rect class="wait" x="416.0" y="336.0" width="90.0")"));
  EXPECT_TRUE(has(
      svg, R"(<rect class="h2d" x="316.0" y="168.0" width="1.6" height="34.0" fill-opacity="0.75"><title>3 pieces)"))
      << "12 of 16 ns";
  EXPECT_TRUE(has(svg, R"(x="336.4" y="168.0" width="0.7" height="34.0" fill-opacity="0.57"><title>chunk 4)"))
      << "4 ns, where the narrowest bar stands for 7";
  EXPECT_FALSE(has(svg, R"(class="d2h")"));
}

TEST(StepPicture, SaysHowBusyALaneWas) {
  const std::string svg = step_picture(pictured());
  EXPECT_TRUE(has(svg, ">88 %<")) << "compute: 6900 of 7800 ns";
  EXPECT_TRUE(has(svg, ">32 %<")) << "updates: 2500 of 7800 ns";
  EXPECT_TRUE(has(svg, ">80 %<")) << "2000 of the updates' 2500 ns beside computing";
  EXPECT_TRUE(has(svg, ">12 %<")) << "waiting: 900 of 7800 ns";
}

TEST(StepPicture, BarsTellWhatTheyAre) {
  const std::string svg = step_picture(pictured());
  EXPECT_TRUE(has(svg, "<title>chunk 4 (payload 2.00 KiB) · h2d\n0.10 µs from 2.10 µs\n600 B · 6.00 GB/s</title>"))
      << svg;
  EXPECT_TRUE(has(svg, "<title>head · backward\n3.90 µs from 3.90 µs</title>"));
}

TEST(StepPicture, NamesAreEscaped) {
  const std::string svg = step_picture(with_spans(R"(["compute", 0, 0, 7800, 0], ["\"<x>", 1, 0, 100, 0])"));
  EXPECT_TRUE(has(svg, "&lt;a&amp;b&gt; · compute")) << svg;
  EXPECT_TRUE(has(svg, "<g id=\"lane-&quot;&lt;x&gt;\">"));
  EXPECT_FALSE(has(svg, "<a&"));
}

TEST(StepPicture, OfAnOlderTraceIsTheWholeRun) {
  const std::string svg = step_picture(with_spans(R"(["compute", 0, 0, 7800, 0])", "[]"));
  EXPECT_TRUE(has(svg, "The whole run, 7.80 µs"));
  EXPECT_TRUE(has(svg, R"(<rect class="compute" x="116.0")"));
}

TEST(StepPicture, OfNothingSaysSo) {
  EXPECT_TRUE(has(step_picture(with_spans("", "[]")), "nothing to draw"));
  EXPECT_TRUE(has(step_picture(with_spans("", "[5, 5]")), "nothing to draw"));
}

TEST(MemoryPicture, HoldsALevelUntilTheNextSample) {
  const std::string svg = memory_picture(pictured(), summarize(pictured()));
  // The bottom of the panel is at y = 152, and a full panel is 88.3 pixels high.
  EXPECT_TRUE(has(svg, R"(d="M116 152.0H116V143.2H506V81.3H896V152.0Z")")) << svg;
  EXPECT_TRUE(has(svg, R"(<line class="budget" x1="116.0" y1="63.7" x2="896.0" y2="63.7"/>)"));
  EXPECT_TRUE(has(svg, R"(<rect class="step" x="181.0")"));
}

TEST(MemoryPicture, ABudgetFarAboveIsToldAndNotDrawn) {
  Trace far = pictured();
  far.budget_bytes[0] = 1u << 30;
  const std::string svg = memory_picture(far, summarize(far));
  EXPECT_TRUE(has(svg, "budget 1.00 GiB"));
  EXPECT_FALSE(has(svg, "class=\"budget\""));
}

TEST(Html, OfNothingIsAPage) {
  const Trace empty = parse(R"({"castor_trace": 1, "model": "a<b", "samples": [], "spans": []})");
  const std::string page = to_html(empty, summarize(empty));
  EXPECT_TRUE(has(page, "<h1>a&lt;b</h1>"));
  EXPECT_TRUE(has(page, "nothing to judge"));
}

TEST(Html, HasThePicturesAndTheFiguresOfTheText) {
  const std::string page = to_html(pictured(), summarize(pictured()));
  for (const char* part : {"id=\"lane-compute\"", "id=\"tier-device\"", "<td>80 % of 1000 B</td>", "bound by compute"})
    EXPECT_TRUE(has(page, part)) << part;
  EXPECT_FALSE(has(page, "http://www.w3.org/1999") || has(page, "src=") || has(page, "url("));
}

TEST(RoundTicks, AreOnesTwosAndFives) {
  EXPECT_EQ(round_ticks(7.8, 10), (std::vector<double>{0, 1, 2, 3, 4, 5, 6, 7}));
  EXPECT_EQ(round_ticks(20, 10).size(), 11u);
  EXPECT_EQ(round_ticks(21, 10), (std::vector<double>{0, 5, 10, 15, 20}));
  EXPECT_EQ(round_ticks(0.3, 3).size(), 4u);
}

TEST(RoundByteTicks, ArePowersOfTwo) {
  constexpr std::uint64_t kMiB = 1 << 20;
  EXPECT_EQ(round_byte_ticks(6 * kMiB, 4), (std::vector<std::uint64_t>{0, 2 * kMiB, 4 * kMiB, 6 * kMiB}));
  EXPECT_EQ(round_byte_ticks(0, 4), (std::vector<std::uint64_t>{0}));
  EXPECT_EQ(tick_bytes(0), "0 B");
  EXPECT_EQ(tick_bytes(512 << 10), "512 KiB");
  EXPECT_EQ(tick_bytes(1536), "1536 B");
  EXPECT_EQ(tick_bytes(3 * kMiB), "3 MiB");
}

TEST(FormatTime, HasThreeDigits) {
  EXPECT_EQ(format_time(0), "0.00 µs");
  EXPECT_EQ(format_time(830'400), "830 µs");
  EXPECT_EQ(format_time(12'540'000), "12.5 ms");
  EXPECT_EQ(format_time(1'250'000'000), "1.25 s");
}

TEST(Escape, LeavesNothingThatXmlCannotHold) { EXPECT_EQ(escape("<&>\"'\x01é"), "&lt;&amp;&gt;&quot;&#39; é"); }

}  // namespace
}  // namespace castor::memprof
