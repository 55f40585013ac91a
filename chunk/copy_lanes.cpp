// SPDX-License-Identifier: Apache-2.0
#include "copy_lanes.h"

namespace castor {

Result<void> CopyLanes::upload(ChunkId id, Chunk& chunk, const Event& slot_free) {
  ChunkCopy &host = chunk.at(Tier::host), &device = chunk.at(Tier::device);
  CASTOR_TRY(host.arrived.wait());
  CASTOR_TRY(up_.wait(slot_free));
  device.arrived = log_.start(Lane::h2d, id, chunk.n_bytes,
                              [&] { return up_.copy(device.buffer.data(), host.buffer.data(), chunk.n_bytes); });
  host.add_reader(device.arrived);
  return {};
}

Result<void> CopyLanes::download(ChunkId id, Chunk& chunk) {
  ChunkCopy &host = chunk.at(Tier::host), &device = chunk.at(Tier::device);
  CASTOR_TRY(down_.wait(device.arrived));
  CASTOR_TRY(down_.wait(compute_.record()));
  host.arrived = log_.start(Lane::d2h, id, chunk.n_bytes,
                            [&] { return down_.copy(host.buffer.data(), device.buffer.data(), chunk.n_bytes); });
  device.add_reader(host.arrived);
  return {};
}

Result<void> CopyLanes::join(ChunkCopy& device) {
  CASTOR_TRY(compute_.wait(device.arrived));
  device.arrived = {};
  return {};
}

}  // namespace castor
