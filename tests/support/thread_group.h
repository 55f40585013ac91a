// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <castor/plugins/model_host.h>

namespace castor::test {

/// The board on which the ranks of one world, threads of this process, lay out their calls.
class ThreadWorld {
 public:
  explicit ThreadWorld(std::uint32_t size) : size_(size), posted_(size) {}

  std::uint32_t size() const { return size_; }

  /// Posts this rank's `call`, waits for those of all others, and runs `read` on all of them, by rank. No rank's `call`
  /// is gone before every rank has read. Errors: that of an abort.
  Result<void> exchange(std::uint32_t rank, const void* call,
                        const std::function<void(const std::vector<const void*>&)>& read);

  /// Leaves bytes for `to`, and takes the oldest that `from` has left for this rank; take waits for them.
  void leave(std::uint32_t from, std::uint32_t to, std::string bytes);
  Result<std::string> take(std::uint32_t from, std::uint32_t to);

  void abort(std::string why);
  Result<void> status() const;

 private:
  Result<void> meet(std::unique_lock<std::mutex>& lock);
  Result<void> locked_status() const;

  const std::uint32_t size_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<const void*> posted_;
  std::uint32_t n_there_ = 0;
  std::uint64_t round_ = 0;
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::vector<std::string>> mail_;
  std::optional<std::string> aborted_;
};

/// The functions between ranks of one rank of a ThreadWorld. Group 0 is the world, and the only one; sums are made in
/// the order of ranks, in the type of the elements (fp32, fp64 or i64).
class ThreadGroup final : public GroupCalls {
 public:
  /// `world` is borrowed.
  ThreadGroup(ThreadWorld& world, std::uint32_t rank);

  std::uint32_t n_groups() override { return 1; }
  Result<castor_group_info> group_info(std::uint32_t group) override;
  Result<void> all_gather(const castor_collective& call) override;
  Result<void> reduce_scatter(const castor_collective& call) override;
  Result<void> all_reduce(const castor_collective& call) override;
  Result<void> broadcast(const castor_collective& call) override;
  Result<void> send(const castor_collective& call) override;
  Result<void> recv(const castor_collective& call) override;
  Result<void> agree(const castor_agreement& agreement) override;
  Result<void> status(std::uint32_t group) override;
  Result<void> abort(std::uint32_t group, const char* why) override;

 private:
  ThreadWorld& world_;
  const std::uint32_t rank_;
  std::vector<std::uint32_t> ranks_;
};

/// Runs `body` on a thread for each rank of a new world. Ends the world where a rank's body failed, so that no other
/// waits for it. Returns the first error by rank.
Result<void> on_ranks(std::uint32_t size,
                      const std::function<Result<void>(ThreadGroup& group, std::uint32_t rank)>& body);

}  // namespace castor::test
