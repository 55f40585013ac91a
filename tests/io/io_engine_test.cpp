// SPDX-License-Identifier: Apache-2.0
#include <castor/io/io_engine.h>

#include <gtest/gtest.h>

#include <cerrno>
#include <functional>
#include <vector>

#include "conformance/io_engine_suite.h"
#include "support/faulty_engine.h"
#include "threads/threads_engine.h"

namespace castor::test {
namespace {

INSTANTIATE_TEST_SUITE_P(Engines, IoEngineSuite,
                         ::testing::Values(IoEngineCase{"uring", [] { return make_io_engine(EngineChoice::uring); }},
                                           IoEngineCase{"threads",
                                                        [] { return make_io_engine(EngineChoice::threads); }},
                                           IoEngineCase{"faulty_without_faults",
                                                        []() -> Result<std::unique_ptr<IoEngine>> {
                                                          return std::unique_ptr<IoEngine>(new FaultyEngine(
                                                              make_io_engine(EngineChoice::threads).value()));
                                                        }}),
                         [](const auto& info) { return info.param.name; });

TEST(IoEngine, BestIsIoUringWhereItWorks) {
  const auto probe = probe_io_uring();
  const auto engine = make_io_engine(EngineChoice::best).value();
  EXPECT_EQ(engine->name(), probe.ok() ? "io_uring" : "threads");
  EXPECT_EQ(engine->fallback_reason().empty(), probe.ok());
}

TEST(IoEngine, ThreadsThatWereAskedForAreNoFallback) {
  const auto engine = make_io_engine(EngineChoice::threads).value();
  EXPECT_EQ(engine->name(), "threads");
  EXPECT_EQ(engine->fallback_reason(), "");
}

TEST(IoEngine, NamesOfChoicesAreRead) {
  EXPECT_EQ(parse_engine_choice("best").value(), EngineChoice::best);
  EXPECT_EQ(parse_engine_choice("uring").value(), EngineChoice::uring);
  EXPECT_EQ(parse_engine_choice("threads").value(), EngineChoice::threads);
  const auto refused = parse_engine_choice("aio");
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, ErrorKind::usage);
  EXPECT_EQ(refused.error().message, "'aio' is no I/O engine; there are best, uring and threads");
}

/// A kernel that gives the scripted answers, then moves everything that is asked for.
class ScriptedKernel {
 public:
  explicit ScriptedKernel(std::vector<std::int64_t> answers) : answers_(std::move(answers)) {}

  std::int64_t operator()(const TransferPart& part) {
    offsets.push_back(part.offset_bytes);
    return offsets.size() <= answers_.size() ? answers_[offsets.size() - 1] : static_cast<std::int64_t>(part.n_bytes);
  }
  std::vector<std::uint64_t> offsets;

 private:
  std::vector<std::int64_t> answers_;
};

TEST(ThreadsEngine, ResumesAfterInterruptionsPausesAndShortTransfers) {
  ScriptedKernel kernel({-EINTR, 512, -EAGAIN, 1024, -EINTR});
  ThreadsEngine engine({}, std::ref(kernel));
  const TestBuffer out(4096, 1);
  EXPECT_TRUE(engine.submit({IoOp::write, 0, "x", 100 * 512, out.view()}).wait().ok());
  EXPECT_EQ(kernel.offsets, (std::vector<std::uint64_t>{51200, 51200, 51712, 51712, 52736, 52736}));
}

}  // namespace
}  // namespace castor::test
