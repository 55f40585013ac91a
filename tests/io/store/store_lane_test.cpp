// SPDX-License-Identifier: Apache-2.0
// The blocks that a lane moves where puts and gets wait together.
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <utility>

#include <castor/io/tensor_store.h>

#include "../../support/scratch_folder.h"
#include "../../support/test_buffer.h"

namespace castor {
namespace {

/// Moves nothing, and ends its requests when the test asks for it, the oldest first. Threads: one.
class HandEngine final : public IoEngine {
 public:
  std::string_view name() const override { return "by hand"; }
  std::size_t depth() const override { return 1024; }
  void start(const IoRequest& request, IoSink& sink) override { under_way_.emplace_back(request, &sink); }
  void cancel(const IoSink&) override {}

  void end_one() {
    const auto [request, sink] = under_way_.front();
    under_way_.pop_front();
    if (const auto next = sink->on_complete({request.bytes.n_bytes, 0})) under_way_.emplace_back(*next, sink);
  }
  std::size_t n_under_way() const { return under_way_.size(); }
  std::size_t n_reads() const {
    return static_cast<std::size_t>(std::count_if(under_way_.begin(), under_way_.end(),
                                                  [](const auto& one) { return one.first.op == IoOp::read; }));
  }

 private:
  std::deque<std::pair<IoRequest, IoSink*>> under_way_;
};

class StoreLaneTest : public ::testing::Test {
 protected:
  StoreLaneTest() {
    TensorStoreOptions options;
    options.folders = {folder_.path()};
    options.checksums = false;
    options.block_bytes = 4096;
    auto engine = std::make_unique<HandEngine>();
    engine_ = engine.get();
    store_ = TensorStore::open(options, std::move(engine)).value();
    const Event there = store_->put(1, bytes_.view());
    end_all();
    EXPECT_TRUE(there.ready());
  }
  ~StoreLaneTest() override { end_all(); }

  void end(std::size_t n) {
    for (std::size_t i = 0; i < n; ++i) engine_->end_one();
  }
  void end_all() {
    while (engine_->n_under_way() > 0) engine_->end_one();
  }

  const test::ScratchFolder folder_{test::ScratchFolder::quick_parent()};
  test::TestBuffer bytes_{1024 * 4096, 1}, read_{1024 * 4096};
  HandEngine* engine_ = nullptr;  // borrowed from the store
  std::unique_ptr<TensorStore> store_;
};

TEST_F(StoreLaneTest, GetsAndPutsHaveHalfOfThePlacesEachWhereBothWait) {
  const Event put = store_->put(2, bytes_.view());
  const std::size_t n_places = engine_->n_under_way();
  ASSERT_GE(n_places, 4u);
  ASSERT_LE(n_places, 256u);
  EXPECT_EQ(engine_->n_reads(), 0u);
  const Event get = store_->get(1, read_.view());
  EXPECT_EQ(engine_->n_reads(), 0u) << "no place is free";
  for (std::size_t n_ended = 1; n_ended <= 3 * n_places; ++n_ended) {
    end(1);
    EXPECT_EQ(engine_->n_under_way(), n_places);
    EXPECT_EQ(engine_->n_reads(), std::min(n_ended, n_places / 2));
  }
}

TEST_F(StoreLaneTest, WhoWaitsAloneHasAllPlaces) {
  const Event get = store_->get(1, read_.view());
  const std::size_t n_places = engine_->n_under_way();
  EXPECT_EQ(engine_->n_reads(), n_places);
  const Event put = store_->put(2, bytes_.view().part(0, 4096));
  end(2 * n_places);
  EXPECT_TRUE(put.ready());
  EXPECT_EQ(engine_->n_reads(), n_places);
}

}  // namespace
}  // namespace castor
