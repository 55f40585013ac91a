// SPDX-License-Identifier: Apache-2.0
// An engine under a host of an older minor version, whose table ends earlier.
#include <castor/engine/engine.h>

#include <gtest/gtest.h>

#include <cstddef>
#include <cstring>
#include <memory>

#include "gpu_rig.h"
#include "small_training.h"

namespace castor {
namespace {

using test::GpuRig;
using test::SmallTraining;

/// The first `n_bytes` of a host's table, with nothing behind them in memory.
class OlderTable {
 public:
  OlderTable(const castor_host_v1& newest, std::size_t n_bytes) : bytes_(::operator new(n_bytes)) {
    std::memcpy(bytes_, &newest, n_bytes);
    table().struct_size = static_cast<std::uint32_t>(n_bytes);
  }
  ~OlderTable() { ::operator delete(bytes_); }
  OlderTable(const OlderTable&) = delete;

  castor_host_v1& table() { return *static_cast<castor_host_v1*>(bytes_); }

 private:
  void* const bytes_;
};

constexpr std::size_t kV10Bytes = offsetof(castor_host_v1, init_param_range);
constexpr std::size_t kV11Bytes = offsetof(castor_host_v1, device_pages);

TEST(EngineHosts, OneOfVersion11TrainsAsTheNewest) {
  const SmallTraining training;
  const auto host = training.make_host();
  OlderTable older(host->table(), kV11Bytes);
  const auto engine = Engine::make(older.table(), training.options()).value();
  engine->attach().value();
  training.run(*engine, *host, 0, 2).value();
  EXPECT_EQ(training.masters(*engine).value(), training.expected(2));
}

TEST(EngineHosts, OneOfVersion11IsAskedForNoPagesOnAGpu) {
  const SmallTraining training({.n_units = 2, .numel = 6 << 20});
  GpuRig rig;
  const auto host = training.make_host(GpuRig::kWhere);
  host->allocate_from(rig.allocator);
  EngineOptions options = training.options();
  options.chunk_bytes = 12 * kMiB;
  {
    const auto newest = Engine::make(host->table(), options, rig.machine()).value();
    EXPECT_FALSE(rig.allocator.pages().empty());
  }
  const std::size_t n_pages = rig.allocator.pages().size();
  OlderTable older(host->table(), kV11Bytes);
  const auto engine = Engine::make(older.table(), options, rig.machine()).value();
  EXPECT_EQ(rig.allocator.pages().size(), n_pages);
}

TEST(EngineHosts, OneOfVersion10IsRefused) {
  const SmallTraining training;
  const auto host = training.make_host();
  OlderTable older(host->table(), kV10Bytes);
  const auto engine = Engine::make(older.table(), training.options());
  ASSERT_FALSE(engine.ok());
  EXPECT_EQ(engine.error().kind, ErrorKind::plugin);
  EXPECT_EQ(engine.error().message,
            "gemini: the host offers no init_param_range, which came with plugin ABI 1.1; use a newer Castor");
}

}  // namespace
}  // namespace castor
