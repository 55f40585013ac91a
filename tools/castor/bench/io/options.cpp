// SPDX-License-Identifier: Apache-2.0
#include "options.h"

#include <utility>

#include "bench/common/run_length.h"

namespace castor::bench {
namespace {

namespace po = boost::program_options;
using cli::number;
using cli::Values;
using cli::wrong;

constexpr std::uint64_t kLargestTensor = std::uint64_t{1} << 40;
constexpr unsigned kMaxDepth = 4096;

template <typename T>
std::optional<T> among(const std::string& text, const std::vector<std::pair<std::string, T>>& choices) {
  for (const auto& [word, meaning] : choices)
    if (text == word) return meaning;
  return std::nullopt;
}

/// Reads each part of a comma-separated list with `read_one`; an option that was not given is an empty list.
template <typename T, typename ReadOne>
Result<std::vector<T>> list_of(const Values& values, const std::string& option, const std::string& takes,
                               ReadOne read_one) {
  std::vector<T> list;
  const auto text = cli::text_of(values, option);
  if (!text) return list;
  for (const std::string& part : cli::split(*text, ',')) {
    const std::optional<T> one = read_one(part);
    if (!one) return wrong(option, part, takes);
    list.push_back(*one);
  }
  if (list.empty()) return wrong(option, *text, takes);
  return list;
}

std::optional<std::uint64_t> size_up_to(const std::string& text, std::uint64_t grain, std::uint64_t max) {
  const auto n_bytes = parse_bytes(text);
  if (!n_bytes.ok() || *n_bytes == 0 || *n_bytes % grain != 0 || *n_bytes > max) return std::nullopt;
  return *n_bytes;
}

/// The size of the blocks that a store cuts its values into: a power of two.
std::optional<std::uint64_t> block_size(const std::string& text) {
  const auto n_bytes = size_up_to(text, kBufferAlignBytes, kGiB);
  return n_bytes && (*n_bytes & (*n_bytes - 1)) == 0 ? n_bytes : std::nullopt;
}

std::optional<unsigned> count_up_to(const std::string& text, unsigned max) {
  const auto count = number<unsigned>(text);
  return count && *count >= 1 && *count <= max ? count : std::nullopt;
}

Result<void> read_lists(const Values& values, IoBenchOptions& options) {
  CASTOR_ASSIGN(options.sizes,
                list_of<std::uint64_t>(values, "sizes", "sizes of 1 byte to 1TiB, as 64KiB,1MiB",
                                       [](const auto& text) { return size_up_to(text, 1, kLargestTensor); }));
  CASTOR_ASSIGN(options.blocks, list_of<std::uint64_t>(values, "blocks",
                                                       "powers of two from 4KiB to 1GiB, as 256KiB,1MiB", block_size));
  CASTOR_ASSIGN(options.depths, list_of<unsigned>(values, "depths", "whole numbers from 1 to 4096, as 4,16",
                                                  [](const auto& text) { return count_up_to(text, kMaxDepth); }));
  CASTOR_ASSIGN(options.rw, list_of<Rw>(values, "rw", "some of read,write,mixed", [](const auto& text) {
                  return among<Rw>(text, {{"read", Rw::read}, {"write", Rw::write}, {"mixed", Rw::mixed}});
                }));
  return {};
}

Result<void> read_choices(const Values& values, IoBenchOptions& options) {
  if (const auto text = cli::text_of(values, "checksums")) {
    options.checksums = among<bool>(*text, {{"on", true}, {"off", false}});
    if (!options.checksums) return wrong("checksums", *text, "on|off");
  }
  const std::string order = values["order"].as<std::string>();
  const auto random = among<bool>(order, {{"sequential", false}, {"random", true}});
  if (!random) return wrong("order", order, "sequential|random");
  options.random = *random;
  options.engine = values["engine"].as<std::string>();
  const bool known = among<bool>(options.engine, {{"best", 1}, {"uring", 1}, {"threads", 1}, {"null", 1}}).has_value();
  if (!known) return wrong("engine", options.engine, "best|uring|threads|null");
  options.fio = values["fio"].as<std::string>();
  options.fio_arguments = cli::split(cli::text_of(values, "fio-args").value_or(""), ' ');
  return {};
}

/// Errors: usage for options that contradict each other.
Result<void> check_together(const IoBenchOptions& options) {
  if (options.memory_bytes > 0 && options.fio != "fio" && options.fio != "off")
    return Error{ErrorKind::usage, "--memory cannot be combined with --fio " + options.fio +
                                       ", which moves the same few MiB over and over; leave one of them out"};
  if (options.engine != "null") return {};
  if (options.verify)
    return Error{ErrorKind::usage,
                 "--verify cannot be combined with --engine null, which moves no byte; name another engine"};
  if (options.checksums.value_or(false))
    return Error{ErrorKind::usage,
                 "--checksums on cannot be combined with --engine null, which moves no byte; leave one of them out"};
  return {};
}

}  // namespace

const char* name(Rw rw) {
  switch (rw) {
    case Rw::read: return "read";
    case Rw::write: return "write";
    case Rw::mixed: return "mixed";
  }
  return "";
}

cli::CommandSyntax io_syntax() {
  cli::CommandSyntax syntax(
      "castor bench io --dir DIR[,DIR] [options]",
      "Measures puts and gets of the tensor store on the drives under DIR, in turns with a ceiling on the same file\n"
      "with the same requests: fio where it is installed (and fio again, to see how much the drive's own speed\n"
      "varies), else a bare io_uring loop. The files have no names, and are removed at the end.\n"
      "For figures to quote: --runs 7 --seconds 10 --span 4GiB on a machine that does nothing else.");
  const auto text = [](const char* takes) { return po::value<std::string>()->value_name(takes); };
  const auto with_default = [&](const char* takes, const char* value) { return text(takes)->default_value(value); };
  syntax.options.add_options()                                                                                  //
      ("dir", text("DIR[,DIR]"), "one folder per drive; several are used together, as --nvme does")             //
      ("sizes", text("SIZE,..."), "sizes of the tensors (usual: 1MiB and 64KiB)")                               //
      ("blocks", text("SIZE,..."), "sizes of the requests that tensors are cut into (usual: 1MiB)")             //
      ("depths", text("N,..."), "requests that each drive has at a time (usual: 16)")                           //
      ("rw", text("read,write,mixed"), "directions; mixed = a read and a write in turn")                        //
      ("order", with_default("sequential|random", "sequential"), "order of the tensors on the drive")           //
      ("engine", with_default("best|uring|threads|null", "best"), "null moves no byte: the cost of the store")  //
      ("checksums", text("on|off"), "whether the store makes and verifies checksums (usual: measure both)")     //
      ("verify", "compare every byte that is read with the byte that was written, besides the checksums")       //
      ("runs", with_default("N", "3"), "rounds of each case; the median counts")                                //
      ("seconds", with_default("S", "1"), "length of one run")                                                  //
      ("span", text("SIZE"),
       "bytes on the drive that are moved over and over (default: 2GiB, or a quarter of the free "
       "space where that is less)")  //
      ("memory", text("SIZE"),
       "size of the memory that is moved, one part after another, as a training moves its states, instead of the same "
       "few MiB; compared with the bare io_uring loop in as much memory")                                //
      ("fio", with_default("PATH|off", "fio"), "the fio to compare with; off = the bare io_uring loop")  //
      ("fio-args", text("WORDS"), "more arguments for fio, separated by spaces: --sqthread_poll=1")      //
      ("tune", "find the block size and depth that suit the drive, in about 2 s, and save them as its defaults");
  return syntax;
}

Result<IoBenchOptions> read_io_options(const Values& values) {
  IoBenchOptions options;
  CASTOR_ASSIGN(options.folders, cli::folders_of(values, "dir"));
  if (options.folders.empty())
    return Error{ErrorKind::usage, "--dir is missing; name a folder on the drive to measure"};
  options.verify = values.count("verify") != 0;
  options.tune = values.count("tune") != 0;
  CASTOR_TRY(read_lists(values, options));
  CASTOR_TRY(read_choices(values, options));
  CASTOR_TRY(read_run_length(values, options.runs, options.seconds));
  CASTOR_ASSIGN(options.span_bytes, cli::bytes_of(values, "span"));
  CASTOR_ASSIGN(const auto memory_bytes, cli::bytes_of(values, "memory"));
  options.memory_bytes = memory_bytes.value_or(0);
  CASTOR_TRY(check_together(options));
  return options;
}

}  // namespace castor::bench
