// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include <castor/schedule/step_model.h>

namespace castor::memprof {

/// The iteration in a trace file, in the form that planning needs; docs/trace.md describes every field.
struct Recording {
  std::string model;
  MoveProblem problem;
  MomentSeconds seconds;
  std::uint64_t non_model_bytes = 0;  ///< peak that the device holds beside chunks
  /// By moment, constant until the next; the peak if the file has no value.
  std::vector<std::uint64_t> non_model_bytes_at;
  std::uint64_t allocator_bytes = 0;  ///< of the device, lost to fragmentation in its allocator
  /// Of the device's budget: bytes that chunks may not take, including a reserve for further fragmentation.
  std::uint64_t taken_bytes = 0;
};

/// The peak that `plan` takes of the device: chunks and non-model data at the same moment, and fragmentation.
std::uint64_t device_peak_bytes(const Recording& recording, const MovePlan& plan);

/// Parses the text of a trace file; `origin` is the file's name in messages. Errors: failed, naming the wrong field.
Result<Recording> parse_recording(std::string_view text, const std::string& origin);

/// Reads a trace file. Errors: io if it cannot be read; those of parse_recording.
Result<Recording> read_recording(const std::filesystem::path& path);

}  // namespace castor::memprof
