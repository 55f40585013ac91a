// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <iosfwd>
#include <optional>
#include <string>

#include <castor/memory/result.h>

namespace castor::cli {

/// The output of a command: text for people, or with --json one object as the last line of stdout.
///
/// Threads: one at a time.
class Output {
 public:
  /// `out` and `err` are borrowed: stdout and stderr, or strings in tests.
  Output(std::ostream& out, std::ostream& err, bool json) : out_(out), err_(err), json_(json) {}

  bool json() const { return json_; }
  /// A line for people on stdout; nothing with --json.
  void line(const std::string& text);
  /// Text for people on stdout that was asked for, as --help: with and without --json.
  void text(const std::string& text) { print(text); }
  /// A line on stderr, with and without --json. Options that the library names become flags, here and in fail
  /// (worded).
  void note(const std::string& text);
  /// The command's result; nothing without --json. Numbers that are not finite become null.
  void result(const nlohmann::json& object);
  /// One sentence on stderr, and with --json `{"error": {"code", "kind", "message"}, …details}` on stdout. Returns
  /// the exit code: the error's, or that of the signal that asked the process to stop.
  int fail(const Error& error);
  int fail(const Error& error, const nlohmann::json& details);
  /// The exit code of a command that ends with `code`: that of an I/O error, with a sentence on stderr, where the
  /// result could not be written as a whole. Call it last.
  int ended(int code);

 private:
  void print(const std::string& text);
  void note_loss();

  std::ostream& out_;
  int lost_ = 0;  ///< errno of the first write to `out_` that failed
  std::ostream& err_;
  const bool json_;
};

/// `value`, or null if it is empty.
nlohmann::json or_null(const std::optional<double>& value);

}  // namespace castor::cli
