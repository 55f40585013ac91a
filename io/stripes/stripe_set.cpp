// SPDX-License-Identifier: Apache-2.0
#include "stripe_set.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <span>
#include <utility>

#include "stripe_account.h"
#include "stripe_debts.h"
#include "stripe_rates.h"
#include "stripe_take.h"
#include "stripe_volumes.h"

namespace castor {
namespace {

constexpr double kMovesAbove = 0.25;   // of a value's units on the wrong volumes
constexpr double kSlowerThanBest = 4;  // from this ratio on a single unit is worth moving

Result<void> check_stripes(const StripeOptions& options) {
  const auto n_folders = options.folders.size();
  if (n_folders == 0)
    return Error{ErrorKind::usage, "a tensor store needs at least one folder; name one with `nvme`", "nvme"};
  if (n_folders > kMostVolumes)
    return Error{ErrorKind::usage, std::to_string(n_folders) + " folders are named for a tensor store; name at most " +
                                       std::to_string(kMostVolumes)};
  if (!is_block_size(options.block_bytes))
    return Error{ErrorKind::usage, "blocks of " + std::to_string(options.block_bytes) +
                                       " bytes are asked for; name a multiple of 4096, such as 1MiB"};
  return {};
}

}  // namespace

StripeSet::StripeSet(const StripeOptions& options, std::vector<DirectFile> files)
    : block_bytes_(options.block_bytes),
      clock_(options.clock),
      account_(std::make_unique<StripeAccount>(options.budget)),
      volumes_(std::make_unique<StripeVolumes>(std::move(files), options.file_limit_bytes)),
      rates_(std::make_unique<StripeRates>(volumes_->size())),
      debts_(std::make_unique<StripeDebts>(volumes_->size(), block_bytes_)) {}

StripeSet::~StripeSet() = default;

Result<std::unique_ptr<StripeSet>> StripeSet::open(const StripeOptions& options) {
  CASTOR_TRY(check_stripes(options));
  std::vector<DirectFile> files;
  for (const auto& folder : options.folders) {
    CASTOR_ASSIGN(DirectFile file, DirectFile::create_unnamed(folder));
    files.push_back(std::move(file));
  }
  return std::unique_ptr<StripeSet>(new StripeSet(options, std::move(files)));
}

Result<std::unique_ptr<StripeSet>> StripeSet::open_named(const StripeOptions& options,
                                                         const std::vector<std::string>& names, DirectFile::Mode mode) {
  CASTOR_TRY(check_stripes(options));
  if (names.size() != options.folders.size())
    throw ContractViolation(std::to_string(names.size()) + " names for " + std::to_string(options.folders.size()) +
                            " folders");
  std::vector<DirectFile> files;
  for (std::size_t v = 0; v < names.size(); ++v) {
    CASTOR_ASSIGN(DirectFile file, DirectFile::open(options.folders[v] + "/" + names[v], mode));
    files.push_back(std::move(file));
  }
  return std::unique_ptr<StripeSet>(new StripeSet(options, std::move(files)));
}

Result<Placement> StripeSet::take(std::uint64_t key, std::uint64_t n_bytes) {
  return StripeTake({*volumes_, *account_, *debts_, *rates_, clock_, block_bytes_}, key, n_bytes).run();
}

Result<void> StripeSet::claim(std::uint64_t key, const Placement& placement) {
  const auto& extents = placement.extents;
  if (extents.size() != n_volumes())
    return Error{ErrorKind::io, "key " + std::to_string(key) + " is on " + std::to_string(extents.size()) +
                                    " volumes and the store has " + std::to_string(n_volumes()) +
                                    "; name the folders that it was made with"};
  const auto n_bytes = placed_bytes(placement);
  CASTOR_TRY(account_->reserve(key, n_bytes));
  const auto claimed = volumes_->claim(key, placement);
  if (claimed.ok())
    account_->settle(n_bytes);
  else
    account_->cancel(n_bytes);
  return claimed;
}

void StripeSet::drop_unclaimed() { volumes_->drop_unclaimed(); }

void StripeSet::give_back(std::uint64_t key, const Placement& placement) {
  volumes_->give_back(key, placement);
  account_->give_back(placed_bytes(placement));
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

std::size_t StripeSet::n_volumes() const { return volumes_->size(); }

const DirectFile& StripeSet::file(std::size_t volume) const { return volumes_->at(volume).file(); }

std::uint64_t StripeSet::device(std::size_t volume) const { return volumes_->at(volume).device(); }

std::string StripeSet::held_text(std::size_t volume) const { return volumes_->held_text(volume); }

std::uint64_t StripeSet::allocated_bytes() const { return account_->allocated_bytes(); }

std::uint64_t StripeSet::peak_allocated_bytes() const { return account_->peak_allocated_bytes(); }

std::vector<std::string> StripeSet::warnings() const {
  std::vector<std::string> sentences;
  for (std::size_t v = 0; v < n_volumes(); ++v) {
    if (!file(v).direct()) sentences.push_back(file(v).fallback_reason());
  }
  return sentences;
}

}  // namespace castor
