// SPDX-License-Identifier: Apache-2.0
#include "collective_checks.h"

#include <functional>
#include <string>

namespace castor {
namespace {

bool overlap(BufferView a, BufferView b) {
  const std::less<const std::byte*> before;  // pointers of different allocations have no `<` of their own
  return a.n_bytes > 0 && b.n_bytes > 0 && before(a.data, b.data + b.n_bytes) && before(b.data, a.data + a.n_bytes);
}

}  // namespace

const char* name(ReduceOp op) {
  switch (op) {
    case ReduceOp::sum: return "sum";
    case ReduceOp::max: return "max";
  }
  throw ContractViolation("ReduceOp holds no operation");
}

void check_bytes(const char* collective, BufferView data) {
  if (!data.data && data.n_bytes > 0)
    throw ContractViolation(std::string(collective) + ": " + std::to_string(data.n_bytes) + " bytes at a null pointer");
}

void check_elements(const char* collective, BufferView data, DType dtype) {
  check_bytes(collective, data);
  if (data.n_bytes % size_bytes(dtype) != 0)
    throw ContractViolation(std::string(collective) + ": " + std::to_string(data.n_bytes) +
                            " bytes are no whole number of " + name(dtype) + " elements");
}

void check_parts(const char* collective, BufferView whole, BufferView part, int rank, int world_size) {
  check_bytes(collective, whole);
  check_bytes(collective, part);
  const auto n_parts = static_cast<std::uint64_t>(world_size);
  if (whole.n_bytes % n_parts != 0 || whole.n_bytes / n_parts != part.n_bytes)
    throw ContractViolation(std::string(collective) + " over " + std::to_string(world_size) +
                            " ranks: " + std::to_string(whole.n_bytes) + " bytes are not " +
                            std::to_string(world_size) + " parts of " + std::to_string(part.n_bytes) + " bytes");
  const bool in_place = part.data == whole.data + static_cast<std::uint64_t>(rank) * part.n_bytes;
  if (overlap(whole, part) && !in_place)
    throw ContractViolation(std::string(collective) + ": the part overlaps the whole and is not its part " +
                            std::to_string(rank));
}

void check_root(const char* collective, int root, int world_size) {
  if (root < 0 || root >= world_size)
    throw ContractViolation(std::string(collective) + ": root " + std::to_string(root) + " is none of the " +
                            std::to_string(world_size) + " ranks");
}

}  // namespace castor
