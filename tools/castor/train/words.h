// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <castor/memory/result.h>

namespace castor::train {

/// An error of the library in the words of the command: things that options name become these options.
Error worded(Error error);

}  // namespace castor::train
