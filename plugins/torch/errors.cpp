// SPDX-License-Identifier: Apache-2.0
#include <castor/plugins/torch/errors.h>

#include <castor/memory/bytes.h>
#include "device_memory.h"

#include <c10/util/Exception.h>

#include <new>
#include <string>
#include <string_view>

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

Error device_full(const std::string& line) {
  const castor_device_memory memory = device_memory();
  return {ErrorKind::does_not_fit,
          first_two_sentences(line) + "; tensors hold " + format_bytes(memory.allocated) + " of the " +
              format_bytes(memory.reserved) +
              " that the allocator has taken from the device; lower `batch`, use `recompute` or raise `device_budget`",
          "device_budget"};
}

Error from_torch(const c10::Error& error) {
  const std::string line = first_line(error.what_without_backtrace());
  // The host's allocator has no exception type of its own.
  if (line.find("DefaultCPUAllocator: can't allocate memory") != std::string::npos)
    return {ErrorKind::does_not_fit, "host memory is full: " + line.substr(line.find("DefaultCPUAllocator"))};
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
    return {ErrorKind::does_not_fit, "host memory is full"};
  } catch (const std::exception& error) {
    return {ErrorKind::failed, first_line(error.what())};
  } catch (...) {
    return {ErrorKind::failed, "an exception that is no std::exception was thrown"};
  }
}

}  // namespace castor
