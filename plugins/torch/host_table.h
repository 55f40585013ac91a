// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "device_memory.h"
#include "model_map.h"

#include <cstdint>
#include <functional>
#include <mutex>
#include <span>
#include <string>

namespace castor {

/// The functions of castor_host_v1 over a mapped model. Cannot be moved: the table points back at it.
class HostTable {
 public:
  HostTable(ModelMap map, c10::Device device, std::uint64_t seed, std::function<bool()> interrupted);
  HostTable(const HostTable&) = delete;
  HostTable& operator=(const HostTable&) = delete;

  const castor_host_v1& table() const { return table_; }
  const ModelMap& map() const { return map_; }
  c10::Device device() const { return device_; }
  std::string take_error();
  bool interrupted() const { return interrupted_ && interrupted_(); }

 private:
  struct Calls;  // the C functions

  std::uint64_t numel(std::uint32_t param) const;
  void leave(std::string sentence);
  castor_status failed(const Error& error);
  void init(std::uint32_t param, std::span<float> out, std::uint64_t first) const;

  ModelMap map_;
  const c10::Device device_;
  ChunkMemory chunk_memory_;
  const std::uint64_t seed_;
  const std::function<bool()> interrupted_;
  std::mutex error_mutex_;  // several threads call init_param_range
  std::string error_;
  castor_host_v1 table_;
};

}  // namespace castor
