// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <castor/plugins/abi.h>
#include <castor/plugins/grad_scaler.h>

namespace castor {

/// The state of a run that a checkpoint holds beside the parameters.
struct RunState {
  std::int64_t n_steps = 0;  ///< completed
  std::optional<DynamicGradScaler::State> scaler;
  /// Where the data continues: any bytes, of which the program alone knows the meaning.
  std::string data_position;
};

/// The trained model and its optimizer.
struct Trained {
  std::string model;  ///< as messages call it
  castor_optimizer optimizer = CASTOR_ADAMW;
};

/// The bytes of one save of the parameters' states.
struct SavedBytes {
  std::uint64_t written_bytes = 0;
  std::uint64_t referenced_bytes = 0;  ///< were in the folders already
};

}  // namespace castor
