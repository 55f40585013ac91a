// SPDX-License-Identifier: Apache-2.0
// The fault matrix with the kernel's answers on a ring changed.
#include <cctype>
#include <cerrno>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "fault_matrix.h"
#include "uring/uring_engine.h"

namespace castor::test {
namespace {

using Allowed = FaultCase::Allowed;

struct AnswerFault {
  enum class Kind { once, ever, shorten };
  Kind kind = Kind::once;
  int answer = 0;  ///< given once in place of the kernel's
};

/// Gives another answer than the kernel's to the n-th transfer, counted from 1 in the order in which they end.
///
/// Threads: any.
class FaultyAnswers {
 public:
  FaultyAnswers(std::uint64_t nth, AnswerFault fault, std::uint64_t sector_bytes)
      : nth_(nth), fault_(fault), sector_bytes_(static_cast<int>(sector_bytes)) {}

  int operator()(int answer) {
    const std::lock_guard lock(mutex_);
    ++n_answers_;
    if (healed_ || n_answers_ < nth_) return answer;
    if (fault_.kind == AnswerFault::Kind::ever) return fault_.answer;
    if (n_answers_ > nth_) return answer;
    if (fault_.kind == AnswerFault::Kind::once) return fault_.answer;
    return answer > sector_bytes_ ? answer - sector_bytes_ : answer;
  }
  bool reached() const {
    const std::lock_guard lock(mutex_);
    return n_answers_ >= nth_;
  }
  void heal() {
    const std::lock_guard lock(mutex_);
    healed_ = true;
  }

 private:
  const std::uint64_t nth_;
  const AnswerFault fault_;
  const int sector_bytes_;
  mutable std::mutex mutex_;
  std::uint64_t n_answers_ = 0;
  bool healed_ = false;
};

FaultCase answer_case(const std::string& name, Allowed allowed, AnswerFault fault) {
  FaultCase made{"io_uring, " + name, allowed, {}};
  made.make = [fault](std::uint64_t nth, std::uint64_t sector_bytes) {
    const auto answers = std::make_shared<FaultyAnswers>(nth, fault, sector_bytes);
    FaultyParts parts;
    parts.engine = UringEngine::make({}, [answers](int answer) { return (*answers)(answer); }).value();
    parts.reached = [answers] { return answers->reached(); };
    parts.heal = [answers] { answers->heal(); };
    return parts;
  };
  return made;
}

class UringStoreFaults : public FaultMatrix {
 protected:
  void SetUp() override {
    if (const auto ring = probe_io_uring(); !ring.ok()) GTEST_SKIP() << ring.error().message;
  }
};

TEST_P(UringStoreFaults, TheNthAnswerIsWrong) { run_until_not_reached(); }

INSTANTIATE_TEST_SUITE_P(
    , UringStoreFaults,
    ::testing::Values(answer_case("EIO", Allowed::errors, {AnswerFault::Kind::once, -EIO}),
                      answer_case("ENOSPC", Allowed::errors, {AnswerFault::Kind::once, -ENOSPC}),
                      answer_case("EINTR", Allowed::nothing, {AnswerFault::Kind::once, -EINTR}),
                      answer_case("EAGAIN once", Allowed::nothing, {AnswerFault::Kind::once, -EAGAIN}),
                      answer_case("a sector short", Allowed::nothing, {AnswerFault::Kind::shorten}),
                      answer_case("0 bytes moved", Allowed::either, {AnswerFault::Kind::once, 0})));

class UringStoreStalls : public UringStoreFaults {};

TEST_P(UringStoreStalls, EveryAnswerFromTheNthOnIsWrong) { run_at_once(); }

FaultCase stall() {
  auto made = answer_case("EAGAIN from then on", Allowed::errors, {AnswerFault::Kind::ever, -EAGAIN});
  made.timeout = std::chrono::milliseconds(40);
  return made;
}
INSTANTIATE_TEST_SUITE_P(, UringStoreStalls, ::testing::Values(stall()));

}  // namespace
}  // namespace castor::test
