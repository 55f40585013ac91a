// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <castor/memory/host_resource.h>

#include "ceiling.h"
#include "report.h"
#include "subject.h"

namespace castor::bench {

/// Measures cases on the drives in rounds of ceiling, Castor, ceiling again, so that a change of a drive's speed from
/// minute to minute affects all three.
///
/// The drive is idle before each of the three. If a case reads values that the ceiling may have overwritten, all
/// tensors are put again, untimed, before each of the three.
class IoBench {
 public:
  /// Shows progress: `read 1MiB, round 2 of 3: fio-3.33`.
  using Show = std::function<void(const std::string&)>;

  /// Errors: usage or does_not_fit if span, memory or free space do not suit `cases`.
  static Result<std::unique_ptr<IoBench>> open(const IoBenchOptions& options, std::vector<IoCase> cases, Show show,
                                               Stopped stopped);

  /// Errors: those of the store; interrupted.
  Result<IoResult> measure(const IoCase& one);

  const std::vector<IoCase>& cases() const { return cases_; }
  /// Measured while the first store was filled.
  const std::optional<CacheGrowth>& cache() const { return cache_; }
  const std::string& engine_name() const { return engine_name_; }
  std::uint64_t span_bytes() const { return subject_options_.span_bytes; }
  /// The reasons why the comparison is not fair, a sentence each.
  std::vector<std::string> notes() const;

 private:
  IoBench(const IoBenchOptions& options, std::vector<IoCase> cases, Show show, Stopped stopped)
      : options_(options), cases_(std::move(cases)), show_(std::move(show)), stopped_(std::move(stopped)) {}

  /// One of the stores that are kept open.
  struct Kept {
    IoCase as;
    std::unique_ptr<Subject> subject;
  };

  Result<void> choose_span();
  Result<void> allocate_memory();
  Result<void> choose_ceiling();

  Result<Subject*> subject_for(const IoCase& one);
  Result<void> open_other(const IoCase& one);
  Result<void> measure_cache(Subject& subject, std::uint64_t machine_before_bytes);
  void note_warnings(const TensorStore& store);
  Result<Round> round(const IoCase& one, Subject& subject);
  Result<void> prepare(const IoCase& one, Subject& subject);
  Result<Sample> timed(const IoCase& one, Subject& subject);
  Result<std::optional<Sample>> ceiling(const IoCase& one, Subject& subject);
  Result<void> settle_ceiling(const IoCase& one, Subject& subject);
  Result<Sample> foreign(const IoCase& one, Subject& subject);
  void replace_ceiling(const Error& error);
  std::string ceiling_name(const IoCase& one) const;
  std::string progress(const IoCase& one, const std::string& who) const;

  const IoBenchOptions options_;
  const std::vector<IoCase> cases_;
  const Show show_;
  const Stopped stopped_;
  SubjectOptions subject_options_;
  HostResource host_;
  Buffer memory_;           ///< declared before the stores, which may still access it while they are destroyed
  std::vector<Kept> kept_;  ///< the last two
  std::unique_ptr<Ceiling> ceiling_;
  bool ceiling_is_bare_ = false;
  std::size_t round_ = 0;
  std::vector<std::string> notes_;
  std::optional<CacheGrowth> cache_;
  std::string engine_name_;
};

}  // namespace castor::bench
