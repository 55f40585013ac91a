// SPDX-License-Identifier: Apache-2.0
#include "train/words.h"

#include <string>
#include <string_view>

namespace castor::train {
namespace {

struct Word {
  std::string_view of_library, of_command;
};

/// Words at the start of a message.
constexpr Word kSubjects[] = {{"the checkpoint folder ", "--resume "}, {"parameter group ", "--group "}};

/// Words inside or at the end of one.
constexpr Word kRemedies[] = {{", optimizer ", ", --optimizer "},
                              {"; resume from it, or name", "; continue it with --resume, or name"},
                              {", or train on the CPU", ", or use --device cpu"}};

}  // namespace

Error worded(Error error) {
  std::string& text = error.message;
  for (const Word& word : kSubjects)
    if (text.starts_with(word.of_library)) text.replace(0, word.of_library.size(), word.of_command);
  for (const Word& word : kRemedies)
    if (const auto at = text.find(word.of_library); at != std::string::npos)
      text.replace(at, word.of_library.size(), word.of_command);
  return error;
}

}  // namespace castor::train
