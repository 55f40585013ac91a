// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <castor/memprof/render.h>
#include <castor/memprof/summary.h>
#include <castor/memprof/summary_json.h>
#include <castor/memprof/trace.h>

namespace castor::memprof {
namespace {

// 4 µs in all. Busy: compute 1000 + 500 ns; h2d [1000, 3000] where two spans overlap; wait 500 + 300 ns.
constexpr const char* kTrace = R"({
  "castor_trace": 1, "model": "tiny", "units": ["embed", "head"],
  "chunks": [{"id": 4, "kind": "payload", "dtype": "bf16", "bytes": 2048, "label": "parameters of chunk 0"},
             {"id": 6, "kind": "gradient", "bytes": 512}],
  "budget_bytes": {"device": 1000, "host": null},
  "samples": [[0, 100, 0, 0], [2000, 800, 50, 0], [4000, 400, 70, 0]],
  "spans": [["compute", 0, 0, 1000, 0], ["h2d", 4, 1000, 2500, 3000], ["h2d", 5, 2000, 3000, 1000],
            ["wait", 1, 1000, 1500, 0], ["wait", 0, 2000, 2300, 0],
            ["compute", 1, 3000, 3500, 0], ["nvme_read", 4, 3500, 3600, 700]],
  "totals": {"h2d_bytes": 4000}
})";

Trace trace() { return parse_trace(kTrace, "t.json").value(); }

const LaneUse& lane(const Summary& summary, const std::string& name) {
  for (const LaneUse& use : summary.lanes) {
    if (use.lane == name) return use;
  }
  throw std::runtime_error("no lane " + name);
}

std::string message_of(const std::string& text) {
  const auto parsed = parse_trace(text, "t.json");
  EXPECT_FALSE(parsed.ok());
  return parsed.ok() ? "" : parsed.error().message;
}

TEST(ParseTrace, ReadsEveryField) {
  const Trace read = trace();
  EXPECT_EQ(read.model, "tiny");
  EXPECT_EQ(read.units, (std::vector<std::string>{"embed", "head"}));
  EXPECT_EQ(read.chunks.at(4), "parameters of chunk 0 bf16 2.00 KiB");
  EXPECT_EQ(read.chunks.at(6), "gradient 512 B");
  EXPECT_EQ(read.budget_bytes[0], std::optional<std::uint64_t>(1000));
  EXPECT_FALSE(read.budget_bytes[1] || read.budget_bytes[2]);
  EXPECT_EQ(read.samples.size(), 3u);
  EXPECT_EQ(read.samples[1].bytes[1], 50u);
  EXPECT_EQ(read.spans.size(), 7u);
  EXPECT_EQ(read.spans[1].bytes, 3000u);
  EXPECT_EQ(read.totals.at("h2d_bytes"), 4000);
  EXPECT_TRUE(read.step_ends_ns.empty() && read.spans[0].phase.empty()) << "files written before these fields";
}

TEST(ParseTrace, ReadsPhasesAndTheEndsOfSteps) {
  const Trace read = parse_trace(R"({"castor_trace": 1, "samples": [], "step_ends_ns": [4, 9],
      "spans": [["compute", 0, 1, 2, 0, "backward"]]})",
                                 "t.json")
                         .value();
  EXPECT_EQ(read.step_ends_ns, (std::vector<std::int64_t>{4, 9}));
  EXPECT_EQ(read.spans[0].phase, "backward");
}

TEST(ParseTrace, SaysWhatIsWrong) {
  EXPECT_NE(message_of("{").find("it is not JSON"), std::string::npos);
  EXPECT_NE(message_of("[]").find("no field castor_trace"), std::string::npos);
  EXPECT_NE(message_of(R"({"castor_trace": 2})").find("its format is not 1"), std::string::npos);
  EXPECT_NE(message_of(R"({"castor_trace": 1, "spans": []})").find("samples"), std::string::npos);
  EXPECT_NE(
      message_of(R"({"castor_trace": 1, "samples": [], "spans": [["h2d", 0, 9, 3, 1]]})").find("ends before it starts"),
      std::string::npos);
  EXPECT_NE(
      message_of(R"({"castor_trace": 1, "samples": [[5,0,0,0],[4,0,0,0]], "spans": []})").find("not in order of time"),
      std::string::npos);
  EXPECT_NE(message_of(R"({"castor_trace": 1, "samples": [], "spans": [], "step_ends_ns": [5, 4]})")
                .find("not in order of time"),
            std::string::npos);
  EXPECT_NE(message_of(R"({"castor_trace": 1, "samples": [[5,0,0]], "spans": []})"), "");
  EXPECT_NE(message_of(R"({"castor_trace": 1, "samples": 7, "spans": []})"), "");
}

TEST(ReadTrace, MissingFileIsAnIoError) {
  const auto read = read_trace("/no/such/trace");
  ASSERT_FALSE(read.ok());
  EXPECT_EQ(read.error().kind, ErrorKind::io);
  EXPECT_EQ(read.error().message, "cannot read the trace '/no/such/trace': No such file or directory");
}

TEST(ReadTrace, FolderIsAnIoError) {
  const auto read = read_trace("/tmp");
  ASSERT_FALSE(read.ok());
  EXPECT_EQ(read.error().kind, ErrorKind::io);
}

TEST(BusyNs, IsTheUnionOfSpans) {
  EXPECT_EQ(busy_ns(trace().spans, "h2d"), 2000);
  EXPECT_EQ(busy_ns(trace().spans, "compute"), 1500);
  EXPECT_EQ(busy_ns(trace().spans, "d2h"), 0);
  EXPECT_EQ(busy_ns({{"x", 0, 0, 10, 0}, {"x", 0, 2, 4, 0}, {"x", 0, 5, 12, 0}}, "x"), 12);
}

TEST(Summarize, PeaksKnowTheirMomentAndBudget) {
  const Summary summary = summarize(trace());
  ASSERT_EQ(summary.tiers.size(), 2u);
  EXPECT_EQ(summary.tiers[0].peak_bytes, 800u);
  EXPECT_EQ(summary.tiers[0].peak_t_ns, 2000);
  EXPECT_EQ(summary.tiers[0].budget_bytes, std::optional<std::uint64_t>(1000));
  EXPECT_EQ(summary.tiers[1].peak_bytes, 70u);
}

TEST(Summarize, CourseHoldsALevelUntilTheNextSample) {
  const auto course = summarize(trace()).tiers[0].course;
  EXPECT_EQ(course[0], 100u);
  EXPECT_EQ(course[kCourseParts / 2 - 1], 100u);
  EXPECT_EQ(course[kCourseParts / 2], 800u);
  EXPECT_EQ(course[kCourseParts - 2], 800u);
  EXPECT_EQ(course[kCourseParts - 1], 800u);  // the last part starts with the level of the previous one
}

TEST(Summarize, LanesHaveBytesRateAndShare) {
  const Summary summary = summarize(trace());
  const LaneUse& h2d = lane(summary, "h2d");
  EXPECT_EQ(h2d.n_spans, 2u);
  EXPECT_EQ(h2d.bytes, 4000u);
  EXPECT_DOUBLE_EQ(h2d.busy_share, 0.5);
  EXPECT_DOUBLE_EQ(h2d.bytes_per_second, 2e9);
  EXPECT_EQ(summary.lanes.front().lane, "compute");
  EXPECT_EQ(summary.lanes.back().lane, "wait");
}

TEST(Summarize, WaitsAndMovesAreRanked) {
  const Summary summary = summarize(trace());
  EXPECT_EQ(summary.wait_ns, 800);
  ASSERT_EQ(summary.longest_waits.size(), 2u);
  EXPECT_EQ(summary.longest_waits[0].name, "head");
  EXPECT_EQ(summary.longest_waits[0].ns, 500);
  ASSERT_EQ(summary.most_moved.size(), 2u);
  EXPECT_EQ(summary.most_moved[0].name, "chunk 4 (parameters of chunk 0 bf16 2.00 KiB)");
  EXPECT_EQ(summary.most_moved[0].bytes, 3700u);
  EXPECT_EQ(summary.most_moved[0].n_times, 2u);
  EXPECT_EQ(summary.most_moved[1].name, "chunk 5");
}

TEST(Summarize, TheBusiestLaneBinds) {
  const Summary summary = summarize(trace());
  EXPECT_EQ(summary.bound_by, "h2d");
  EXPECT_EQ(verdict(summary), "bound by h2d: busy 50 % of 0.000 s; waits for data took 20.0 %");
}

TEST(Verdict, ALaneThatIsMostlyIdleBindsNothing) {
  Summary summary = summarize(trace());
  summary.bound_share = 0.36;
  EXPECT_EQ(verdict(summary), "bound by no lane; the busiest is h2d: busy 36 % of 0.000 s; waits for data took 20.0 %");
}

TEST(Summarize, AnEmptyTraceHasNoVerdict) {
  const Trace empty = parse_trace(R"({"castor_trace": 1, "samples": [], "spans": []})", "t").value();
  const Summary summary = summarize(empty);
  EXPECT_EQ(summary.duration_ns, 0);
  EXPECT_EQ(verdict(summary), "nothing to judge: the trace holds no spans");
  EXPECT_NE(to_text(empty, summary), "");
}

TEST(Sparkline, GoesFromEmptyToFull) {
  EXPECT_EQ(sparkline({0, 1, 50, 100, 200}, 100), " ▁▄██");
  EXPECT_EQ(sparkline({0, 0}, 0), "  ");
}

TEST(Render, TextNamesThePeaks) {
  const std::string text = to_text(trace(), summarize(trace()));
  EXPECT_NE(text.find("80 % of 1000 B"), std::string::npos) << text;
  EXPECT_NE(text.find("no budget"), std::string::npos) << text;
  EXPECT_NE(text.find("2.00 GB/s"), std::string::npos) << text;
}

TEST(Render, JsonHasTheSameFigures) {
  const nlohmann::json object = to_json(trace(), summarize(trace()));
  EXPECT_EQ(object["tiers"]["device"]["peak_bytes"], 800);
  EXPECT_EQ(object["tiers"]["host"]["budget_bytes"], nullptr);
  EXPECT_EQ(object["lanes"]["h2d"]["bytes"], 4000);
  EXPECT_EQ(object["bound"]["by"], "h2d");
}

}  // namespace
}  // namespace castor::memprof
