// SPDX-License-Identifier: Apache-2.0
#include "train/trainer.h"

#include "cli/process.h"

namespace castor::train {

Result<void> run_training(const TrainOptions& options, const TrainObserver&, TrainRecord&) {
  if (options.device == DeviceKind::cuda) CASTOR_TRY(cli::check_gpu());
  return Error{ErrorKind::failed,
               "this castor was built without LibTorch and cannot train; pip install torch and build again"};
}

}  // namespace castor::train
