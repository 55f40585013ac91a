// SPDX-License-Identifier: Apache-2.0
#include <castor/chunk/chunk.h>

#include <algorithm>
#include <utility>

namespace castor {

const char* name(ChunkKind kind) {
  switch (kind) {
    case ChunkKind::payload: return "payload";
    case ChunkKind::gradient: return "gradient";
    case ChunkKind::state: return "state";
    case ChunkKind::activation: return "activation";
    case ChunkKind::undo: return "undo";
  }
  throw ContractViolation("ChunkKind holds no kind");
}

bool ChunkCopy::quiet() const {
  return arrived.ready() &&
         std::all_of(readers.begin(), readers.end(), [](const Event& reader) { return reader.ready(); });
}

void ChunkCopy::wait_for_one(std::chrono::nanoseconds limit) const {
  if (!arrived.ready()) return (void)arrived.wait_for(limit);
  const auto busy =
      std::find_if_not(readers.begin(), readers.end(), [](const Event& reader) { return reader.ready(); });
  if (busy != readers.end()) (void)busy->wait_for(limit);
}

void ChunkCopy::add_reader(Event reader) {
  std::erase_if(readers, [](const Event& earlier) { return earlier.ready() && earlier.wait().ok(); });
  readers.push_back(std::move(reader));
}

Result<void> ChunkCopy::settle_readers() {
  Result<void> outcome;
  for (const Event& reader : std::exchange(readers, {}))
    if (auto read = reader.wait(); outcome.ok()) outcome = read;
  return outcome;
}

bool Chunk::clean(Tier tier) const {
  for (const Tier other : kTiers)
    if (other != tier && resident(other)) return true;
  return !resident(tier);
}

}  // namespace castor
