// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include <castor/plugins/abi.h>
#include <castor/plugins/grad_scaler.h>

namespace castor {

/// Settings by name, which a run should be continued with.
using RunSettings = std::map<std::string, std::string>;

/// The state of a run that a checkpoint holds beside the parameters.
struct RunState {
  std::int64_t n_steps = 0;  ///< completed
  std::optional<DynamicGradScaler::State> scaler;
  /// Where the data continues: any bytes, of which the program alone knows the meaning.
  std::string data_position;
  RunSettings settings;  ///< of the run that saved
};

/// The trained model and its optimizer.
struct Trained {
  std::string model;  ///< as messages call it; a run of another name is not continued
  castor_optimizer optimizer = CASTOR_ADAMW;
};

/// The bytes of one save of the parameters' states.
struct SavedBytes {
  std::uint64_t written_bytes = 0;
  std::uint64_t referenced_bytes = 0;  ///< were in the folders already
};

}  // namespace castor
