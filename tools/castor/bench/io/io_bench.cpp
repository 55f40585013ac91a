// SPDX-License-Identifier: Apache-2.0
#include "io_bench.h"

#include <algorithm>
#include <utility>

#include <castor/io/folder.h>
#include <castor/memory/bytes.h>
#include <castor/memory/host_memory.h>

#include "bench/common/child.h"
#include "cli/words.h"

namespace castor::bench {
namespace {

constexpr std::uint64_t kUsualSpanBytes = 2 * kGiB;
/// Two stores may be open at a time, and fio may need files beside one.
constexpr std::uint64_t kPartsOfFreeSpace = 4;

Error interrupted() { return {ErrorKind::interrupted, "stopped on request; the figures measured so far are shown"}; }

/// The cases use the same store.
bool same_store(const IoCase& a, const IoCase& b) {
  return a.tensor_bytes == b.tensor_bytes && a.block_bytes == b.block_bytes && a.depth == b.depth &&
         a.checksums == b.checksums && a.random == b.random;
}

IoCase without_checksums(IoCase one) {
  one.checksums = false;
  one.against_unchecked = false;
  return one;
}

Result<std::uint64_t> free_bytes(const std::vector<std::string>& folders) {
  std::uint64_t least = UINT64_MAX;
  for (const std::string& folder : folders) {
    CASTOR_ASSIGN(const std::uint64_t here, available_bytes(folder));
    least = std::min(least, here);
  }
  return least;
}

}  // namespace

Result<std::unique_ptr<IoBench>> IoBench::open(const IoBenchOptions& options, std::vector<IoCase> cases, Show show,
                                               Stopped stopped) {
  std::unique_ptr<IoBench> bench(new IoBench(options, std::move(cases), std::move(show), std::move(stopped)));
  CASTOR_ASSIGN(bench->subject_options_.engine, parse_engine_choice(options.engine));
  bench->subject_options_.folders = options.folders;
  bench->subject_options_.verify = options.verify;
  CASTOR_TRY(bench->choose_span());
  CASTOR_TRY(bench->allocate_memory());
  CASTOR_TRY(bench->choose_ceiling());
  return bench;
}

Result<void> IoBench::choose_span() {
  CASTOR_ASSIGN(const std::uint64_t free, free_bytes(options_.folders));
  const std::uint64_t usual = std::min(kUsualSpanBytes, free / kPartsOfFreeSpace);
  subject_options_.span_bytes = options_.span_bytes.value_or(usual);
  const std::uint64_t span = subject_options_.span_bytes;
  if (span > free)
    return Error{ErrorKind::does_not_fit, "--span " + exact_size(span) + " is more than the " + format_bytes(free) +
                                              " that are free in " + options_.folders[0] + "; lower it"};
  for (const IoCase& one : cases_) {
    const StoreDriver::Shape shape = shape_of(subject_options_, one);
    if (shape.n_tensors >= shape.n_in_flight) continue;
    return Error{options_.span_bytes ? ErrorKind::usage : ErrorKind::does_not_fit,
                 "a span of " + format_bytes(span) + " holds " + std::to_string(shape.n_tensors) + " tensors of " +
                     exact_size(one.tensor_bytes) + ", but " + std::to_string(shape.n_in_flight) +
                     " are in flight; raise --span, or lower --depths or --sizes"};
  }
  return {};
}

Result<void> IoBench::allocate_memory() {
  const std::uint64_t available_bytes = available_host_memory_bytes();
  if (available_bytes > 0 && options_.memory_bytes > available_bytes)
    return Error{ErrorKind::does_not_fit, "--memory " + exact_size(options_.memory_bytes) + " is more than the " +
                                              format_bytes(available_bytes) + " that are available; lower it"};
  std::uint64_t n_bytes = 0;
  for (const IoCase& one : cases_)
    n_bytes = std::max({n_bytes, StoreDriver::memory_bytes(shape_of(subject_options_, one)), one.in_flight_bytes()});
  CASTOR_ASSIGN(memory_, Buffer::allocate(host_, n_bytes));
  return {};
}

Result<void> IoBench::choose_ceiling() {
  if (subject_options_.engine == EngineChoice::null)
    return notes_.push_back("the null engine has no ceiling"), Result<void>();
  const bool wants_fio = options_.fio != "off" && options_.memory_bytes == 0;
  const std::string program = wants_fio ? find_program(options_.fio) : "";
  if (!program.empty()) {
    std::vector<std::string> command = {program};
    command.insert(command.end(), options_.fio_arguments.begin(), options_.fio_arguments.end());
    ceiling_ = make_fio_ceiling(std::move(command), options_.folders, stopped_);
    return {};
  }
  if (wants_fio && options_.fio != "fio")
    return Error{ErrorKind::usage, "--fio: there is no program " + options_.fio + "; name another, or off"};
  if (wants_fio) notes_.push_back("fio is not installed here, so a bare io_uring loop is the ceiling");
  ceiling_ = make_bare_ceiling(memory_.view(), stopped_);
  ceiling_is_bare_ = true;
  return {};
}

std::vector<std::string> IoBench::notes() const {
  std::vector<std::string> all = notes_;
  const auto add = [&](const std::string& note) {
    if (std::find(all.begin(), all.end(), note) == all.end()) all.push_back(note);
  };
  if (ceiling_)
    for (const std::string& note : ceiling_->notes()) add(note);
  if (options_.verify) add("--verify fills and compares every byte, which the figures and their CPU time include");
  return all;
}

/// If the ceiling is replaced during the case, the rounds start again: a share mixes no two ceilings.
Result<IoResult> IoBench::measure(const IoCase& one) {
  IoResult result{one, "", {}};
  CASTOR_ASSIGN(Subject* const subject, subject_for(one));
  if (one.against_unchecked) CASTOR_TRY(open_other(one));
  while (result.rounds.size() < options_.runs) {
    if (result.rounds.empty()) CASTOR_TRY(settle_ceiling(one, *subject));
    const Ceiling* const held_against = ceiling_.get();
    round_ = result.rounds.size() + 1;
    CASTOR_ASSIGN(const Round done, round(one, *subject));
    if (ceiling_.get() == held_against)
      result.rounds.push_back(done);
    else
      result.rounds.clear();
  }
  if (result.rounds[0].ceiling) result.ceiling_name = ceiling_name(one);
  return result;
}

/// The store of `one`, which becomes the newer of the two that stay open.
Result<Subject*> IoBench::subject_for(const IoCase& one) {
  const auto found =
      std::find_if(kept_.begin(), kept_.end(), [&](const Kept& kept) { return same_store(kept.as, one); });
  if (found != kept_.end()) {
    std::rotate(found, found + 1, kept_.end());
    return kept_.back().subject.get();
  }
  if (kept_.size() == 2) kept_.erase(kept_.begin());
  show_(name_of(one) + ": putting " + exact_size(span_bytes()));
  const std::uint64_t machine_before_bytes = machine_cache_bytes();
  CASTOR_ASSIGN(auto subject, Subject::open(subject_options_, one, memory_.view(), stopped_));
  engine_name_ = subject->store().engine_name();
  note_warnings(subject->store());
  if (!cache_ && subject_options_.engine != EngineChoice::null)
    CASTOR_TRY(measure_cache(*subject, machine_before_bytes));
  if (stopped_()) return interrupted();
  kept_.push_back({one, std::move(subject)});
  return kept_.back().subject.get();
}

void IoBench::note_warnings(const TensorStore& store) {
  for (const std::string& warning : store.warnings()) {
    std::string note = cli::worded(warning);
    if (std::find(notes_.begin(), notes_.end(), note) == notes_.end()) notes_.push_back(std::move(note));
  }
}

Result<void> IoBench::measure_cache(Subject& subject, std::uint64_t machine_before_bytes) {
  const auto read = subject.driver().read_all();
  if (!read.ok()) return read.error();
  cache_ = CacheGrowth{span_bytes(), cached_bytes(subject.region()),
                       static_cast<std::int64_t>(machine_cache_bytes() - machine_before_bytes)};
  return {};
}

/// Opens the store without checksums before the first round; opening it does not close that of `one`.
Result<void> IoBench::open_other(const IoCase& one) {
  const auto other = subject_for(without_checksums(one));
  return other.ok() ? Result<void>() : other.error();
}

Result<Round> IoBench::round(const IoCase& one, Subject& subject) {
  Round done;
  CASTOR_ASSIGN(done.ceiling, ceiling(one, subject));
  show_(progress(one, "castor"));
  CASTOR_ASSIGN(done.ours, timed(one, subject));
  CASTOR_ASSIGN(done.ceiling_again, ceiling(one, subject));
  return done;
}

std::string IoBench::progress(const IoCase& one, const std::string& who) const {
  return name_of(one) + ", round " + std::to_string(round_) + " of " + std::to_string(options_.runs) + ": " + who;
}

/// The same preparation for all three measurements of a round: intact values and an idle drive.
Result<void> IoBench::prepare(const IoCase& one, Subject& subject) {
  const bool verified = one.checksums || options_.verify;
  if (one.rw != Rw::write && verified) {
    if (one.rw == Rw::mixed && ceiling_) subject.spoil();  // before Castor as before the ceilings
    CASTOR_TRY(subject.make_intact());
  }
  flush(subject.region());
  return stopped_() ? Result<void>(interrupted()) : Result<void>();
}

Result<Sample> IoBench::timed(const IoCase& one, Subject& subject) {
  CASTOR_TRY(prepare(one, subject));
  CASTOR_ASSIGN(const Sample sample, subject.driver().run(one.rw, options_.seconds));
  if (stopped_()) return interrupted();
  return sample;
}

Result<std::optional<Sample>> IoBench::ceiling(const IoCase& one, Subject& subject) {
  if (one.against_unchecked) {
    show_(progress(one, "castor without checksums"));
    CASTOR_ASSIGN(Subject* const other, subject_for(without_checksums(one)));
    CASTOR_ASSIGN(const Sample sample, timed(without_checksums(one), *other));
    return std::optional(sample);
  }
  while (ceiling_) {
    show_(progress(one, ceiling_->name()));
    const auto sample = foreign(one, subject);
    if (sample.ok()) return std::optional(*sample);
    if (sample.error().kind == ErrorKind::interrupted) return sample.error();
    replace_ceiling(sample.error());
  }
  return std::optional<Sample>();
}

/// Errors other than a stop are ignored here; the round meets them again.
Result<void> IoBench::settle_ceiling(const IoCase& one, Subject& subject) {
  if (!ceiling_ || one.against_unchecked) return {};
  show_(name_of(one) + ": looking for the ceiling's fastest settings");
  if (one.rw != Rw::read) subject.spoil();
  const auto settled = ceiling_->settle(one, subject.region(), std::min(kMostSettlingS, options_.seconds));
  const bool stopped = stopped_() || (!settled.ok() && settled.error().kind == ErrorKind::interrupted);
  return stopped ? Result<void>(interrupted()) : Result<void>();
}

Result<Sample> IoBench::foreign(const IoCase& one, Subject& subject) {
  CASTOR_TRY(prepare(one, subject));
  if (one.rw != Rw::read) subject.spoil();
  CASTOR_ASSIGN(const Sample sample, ceiling_->measure(one, subject.region(), options_.seconds));
  if (stopped_()) return interrupted();
  return sample;
}

/// The order of replacement: fio → bare loop → none.
void IoBench::replace_ceiling(const Error& error) {
  const bool was_fio = !ceiling_is_bare_;
  notes_.push_back("the " + ceiling_->program() + " cannot be a ceiling here: " + error.message);
  ceiling_ = was_fio ? make_bare_ceiling(memory_.view(), stopped_) : nullptr;
  ceiling_is_bare_ = true;
}

std::string IoBench::ceiling_name(const IoCase& one) const {
  return one.against_unchecked ? "castor without checksums" : ceiling_->name();
}

}  // namespace castor::bench
