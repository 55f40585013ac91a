// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include <castor/schedule/step_model.h>

namespace castor::plan {

/// The iteration that a trace file holds, as plans need it; docs/trace.md describes every field.
struct Recording {
  std::string model;
  MoveProblem problem;
  MomentSeconds seconds;
  std::uint64_t non_model_bytes = 0;  ///< that the device holds beside chunks, at most
  /// By moment, the same until the next; the most where the file does not say.
  std::vector<std::uint64_t> non_model_bytes_at;
  std::uint64_t allocator_bytes = 0;  ///< of the device, in the fragments of its allocator
  /// Of the device's budget: what chunks may not take. Besides the above that is room for what the allocator may yet lose.
  std::uint64_t taken_bytes = 0;
};

/// The most that `plan` takes of the device: chunks and what is beside them at the same moment, and fragments.
std::uint64_t device_peak_bytes(const Recording& recording, const MovePlan& plan);

/// Reads the text of a trace file. Errors: failed, naming the field that is wrong; `origin` is the file's name in
/// messages.
Result<Recording> parse_recording(std::string_view text, const std::string& origin);

/// Reads a trace file. Errors: io where it cannot be read; those of parse_recording.
Result<Recording> read_recording(const std::filesystem::path& path);

}  // namespace castor::plan
