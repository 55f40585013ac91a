// SPDX-License-Identifier: Apache-2.0
#include <castor/plugins/torch/errors.h>

#include <castor/memory/bytes.h>
#include <castor/memory/host_memory.h>
#include <castor/memory/shortage.h>
#include <castor/memory/system_limit.h>
#include "device_memory.h"

#include <c10/util/Exception.h>

#include <cstring>
#include <new>
#include <sstream>
#include <string>
#include <string_view>
#include <system_error>

namespace castor {
namespace {

std::string first_line(std::string_view text) { return std::string(text.substr(0, text.find('\n'))); }

/// `CUDA out of memory. Tried to allocate 1.50 GiB. GPU 0 has …` cut after the second sentence: device_full adds the
/// figures in Castor's words.
std::string first_two_sentences(const std::string& line) {
  const auto first = line.find(". ");
  const auto second = first == std::string::npos ? first : line.find(". ", first + 2);
  return second == std::string::npos ? line : line.substr(0, second);
}

/// The size that LibTorch says after `words`, as `1.50 GiB` or `4096 bytes`; 0 where it says none.
std::uint64_t size_after(const char* words, std::string_view line) {
  const auto at = line.find(words);
  if (at == std::string_view::npos) return 0;
  std::istringstream rest{std::string(line.substr(at + std::strlen(words)))};
  std::string number, unit;
  rest >> number >> unit;
  const std::string letters = unit.substr(0, unit.find_first_not_of("KMGiB"));  // none of "bytes."
  const auto n_bytes = parse_bytes(number + letters);
  return n_bytes.ok() ? *n_bytes : 0;
}

Error device_full(const std::string& line) {
  const castor_device_memory memory = device_memory();
  const std::uint64_t free_bytes = saturating_sub(memory.total, memory.reserved);
  return does_not_fit(
      {Tier::device, size_after("Tried to allocate ", line), free_bytes},
      first_two_sentences(line) + "; tensors hold " + format_bytes(memory.allocated) + " of the " +
          format_bytes(memory.reserved) +
          " that the allocator has taken from the device; lower `batch`, use `recompute` or raise `device_budget`");
}

Error host_full(const std::string& line, std::uint64_t n_bytes) {
  return does_not_fit(
      {Tier::host, n_bytes, available_host_memory_bytes()},
      "host memory is full" + (line.empty() ? line : ": " + line) + "; free some or lower `host_budget`",
      "host_budget");
}

Error from_torch(const c10::Error& error) {
  const std::string line = first_line(error.what_without_backtrace());
  // The host's allocator has no exception type of its own.
  if (line.find("DefaultCPUAllocator: can't allocate memory") != std::string::npos)
    return host_full(line.substr(line.find("DefaultCPUAllocator")), size_after("you tried to allocate ", line));
  return {ErrorKind::failed, line};
}

}  // namespace

Error current_error() {
  try {
    throw;
  } catch (const ErrorException& error) {
    return error.error();
  } catch (const c10::OutOfMemoryError& error) {
    return device_full(first_line(error.what_without_backtrace()));
  } catch (const c10::Error& error) {
    return from_torch(error);
  } catch (const std::bad_alloc&) {
    return host_full("", 0);
  } catch (const std::system_error& error) {
    return limit_or_failure(error);
  } catch (const std::exception& error) {
    return {ErrorKind::failed, first_line(error.what())};
  } catch (...) {
    return {ErrorKind::failed, "an exception that is no std::exception was thrown"};
  }
}

}  // namespace castor
