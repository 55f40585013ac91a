// SPDX-License-Identifier: Apache-2.0
#include <castor/io/stripe_set.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <span>
#include <utility>

#include "stripe_rates.h"
#include "stripe_volume.h"

namespace castor {
namespace {

constexpr double kMovesAbove = 0.25;   // of a value's units on the wrong volumes
constexpr double kSlowerThanBest = 4;  // from here on a single unit is worth moving

std::uint64_t room_of(const Placement& placement) {
  std::uint64_t n_bytes = 0;
  for (const auto& extent : placement.extents) n_bytes += extent.n_bytes;
  return n_bytes;
}

}  // namespace

StripeSet::StripeSet(const StripeOptions& options)
    : budget_(options.budget), block_bytes_(options.block_bytes), clock_(options.clock) {}

StripeSet::~StripeSet() {
  for (const auto& volume : volumes_) volume->close();
  count_out(allocated_bytes_);
}

Result<void> StripeSet::check(const StripeOptions& options) {
  const auto n_folders = options.folders.size();
  if (n_folders == 0) return Error{ErrorKind::usage, "a tensor store needs at least one folder; name one with --nvme"};
  if (n_folders > kMostVolumes)
    return Error{ErrorKind::usage, std::to_string(n_folders) + " folders are named for a tensor store; name at most " +
                                       std::to_string(kMostVolumes)};
  if (!is_block_size(options.block_bytes))
    return Error{ErrorKind::usage, "blocks of " + std::to_string(options.block_bytes) +
                                       " bytes are asked for; name a multiple of 4096, such as 1MiB"};
  return {};
}

void StripeSet::add_volume(DirectFile file, const StripeOptions& options) {
  volumes_.push_back(std::make_unique<StripeVolume>(std::move(file), options.file_limit_bytes));
  owed_bytes_.push_back(0);
  rates_ = std::make_unique<StripeRates>(volumes_.size());
}

Result<std::unique_ptr<StripeSet>> StripeSet::open(const StripeOptions& options) {
  CASTOR_TRY(check(options));
  std::unique_ptr<StripeSet> set(new StripeSet(options));
  for (const auto& folder : options.folders) {
    CASTOR_ASSIGN(DirectFile file, DirectFile::create_unnamed(folder));
    set->add_volume(std::move(file), options);
  }
  return set;
}

Result<std::unique_ptr<StripeSet>> StripeSet::open_named(const StripeOptions& options,
                                                         const std::vector<std::string>& names) {
  CASTOR_TRY(check(options));
  if (names.size() != options.folders.size())
    throw ContractViolation(std::to_string(names.size()) + " names for " + std::to_string(options.folders.size()) +
                            " folders");
  std::unique_ptr<StripeSet> set(new StripeSet(options));
  for (std::size_t v = 0; v < names.size(); ++v) {
    CASTOR_ASSIGN(DirectFile file, DirectFile::open(options.folders[v] + "/" + names[v], DirectFile::Mode::write));
    set->add_volume(std::move(file), options);
  }
  return set;
}

Result<void> StripeSet::count_in(std::uint64_t key, std::uint64_t n_bytes) {
  if (!budget_ || budget_->try_reserve(n_bytes)) return {};
  return Error{ErrorKind::does_not_fit, std::string(name(budget_->tier())) + " tier: key " + std::to_string(key) +
                                            " needs " + format_bytes(n_bytes) + ", " +
                                            format_bytes(budget_->free_bytes()) + " are free under the " +
                                            format_bytes(budget_->limit_bytes()) + " budget; raise it to " +
                                            format_bytes(budget_->used_bytes() + n_bytes) + " or more"};
}

void StripeSet::count_out(std::uint64_t n_bytes) {
  if (budget_) budget_->release(n_bytes);
}

Result<void> StripeSet::claim(std::uint64_t key, const Placement& placement) {
  const auto& extents = placement.extents;
  if (extents.size() != n_volumes())
    return Error{ErrorKind::io, "key " + std::to_string(key) + " lies on " + std::to_string(extents.size()) +
                                    " volumes and the store has " + std::to_string(n_volumes()) +
                                    "; name the folders that it was made with"};
  CASTOR_TRY(count_in(key, room_of(placement)));
  const std::lock_guard lock(mutex_);
  for (std::size_t v = 0; v < extents.size(); ++v) {
    const auto claimed = extents[v].n_bytes == 0 ? Result<void>() : volumes_[v]->claim(key, extents[v]);
    if (claimed.ok()) continue;
    while (v-- > 0)
      if (extents[v].n_bytes > 0) volumes_[v]->unclaim(key, extents[v]);
    count_out(room_of(placement));
    return claimed.error();
  }
  for (const auto& volume : volumes_) volume->keep_claims();
  add(room_of(placement));
  return {};
}

void StripeSet::drop_unclaimed() {
  const std::lock_guard lock(mutex_);
  for (const auto& volume : volumes_) volume->drop_unclaimed();
}

void StripeSet::give_back(std::uint64_t key, const Placement& placement) {
  punch(placement);
  const std::lock_guard lock(mutex_);
  free(key, placement);
  allocated_bytes_ -= room_of(placement);
  count_out(room_of(placement));
}

void StripeSet::punch(const Placement& placement) const {
  for (std::size_t v = 0; v < n_volumes(); ++v)
    if (placement.extents.at(v).n_bytes > 0) volumes_[v]->punch(placement.extents[v]);
}

void StripeSet::free(std::uint64_t key, const Placement& placement) {
  for (std::size_t v = 0; v < n_volumes(); ++v)
    if (placement.extents[v].n_bytes > 0) volumes_[v]->free(key, placement.extents[v]);
}

void StripeSet::add(std::uint64_t n_bytes) {
  allocated_bytes_ += n_bytes;
  peak_allocated_bytes_ = std::max(peak_allocated_bytes_, allocated_bytes_);
}

bool StripeSet::worth_moving(const Placement& placement) const {
  const auto& extents = placement.extents;
  if (extents.size() != n_volumes()) throw ContractViolation("a placement on other volumes than the store has");
  if (n_volumes() == 1) return false;
  std::array<double, kMostVolumes> room{}, held{};
  const auto today = std::span(room).first(n_volumes());
  rates_->shares(clock_(), today);
  const double best = *std::max_element(today.begin(), today.end());
  double n_units = 0, n_wrong = 0;
  for (std::size_t v = 0; v < n_volumes(); ++v)
    n_units += held[v] = static_cast<double>((extents[v].n_bytes + block_bytes_ - 1) / block_bytes_);
  for (std::size_t v = 0; v < n_volumes(); ++v) {
    const double due = today[v] * n_units;
    const bool slow = today[v] * kSlowerThanBest < best;
    n_wrong += std::max(0.0, held[v] - (slow ? due : std::ceil(due)));
  }
  return n_wrong > kMovesAbove * n_units;
}

void StripeSet::started(std::size_t volume, std::uint64_t now_ns) noexcept { rates_->started(volume, now_ns); }

void StripeSet::ended(std::size_t volume, std::uint64_t n_bytes, std::uint64_t now_ns) noexcept {
  rates_->ended(volume, n_bytes, now_ns);
}

std::vector<double> StripeSet::shares() const {
  std::vector<double> shares(n_volumes());
  rates_->shares(clock_(), shares);
  return shares;
}

const DirectFile& StripeSet::file(std::size_t volume) const { return volumes_.at(volume)->file(); }

std::uint64_t StripeSet::device(std::size_t volume) const { return volumes_.at(volume)->device(); }

std::string StripeSet::held_text(std::size_t volume) const {
  const std::lock_guard lock(mutex_);
  return volumes_.at(volume)->held_text();
}

std::uint64_t StripeSet::allocated_bytes() const {
  const std::lock_guard lock(mutex_);
  return allocated_bytes_;
}

std::uint64_t StripeSet::peak_allocated_bytes() const {
  const std::lock_guard lock(mutex_);
  return peak_allocated_bytes_;
}

std::vector<std::string> StripeSet::warnings() const {
  std::vector<std::string> sentences;
  for (const auto& volume : volumes_) {
    if (!volume->file().direct()) sentences.push_back(volume->file().fallback_reason());
  }
  return sentences;
}

}  // namespace castor
