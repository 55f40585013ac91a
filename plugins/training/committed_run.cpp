// SPDX-License-Identifier: Apache-2.0
#include <castor/training/committed_run.h>

#include <nlohmann/json.hpp>
#include <castor/training/finite_states.h>

#include "run_header.h"

namespace castor {

Result<SavedBytes> commit_run(const Trained& trained, ModelHost& model, Strategy& strategy, const RunState& run) {
  CASTOR_ASSIGN(const auto params, params_of(model));
  CASTOR_ASSIGN(const auto wild, first_not_finite(params, strategy));
  if (wild) return not_finite_error(*wild);
  CASTOR_ASSIGN(const castor_commit_result result,
                strategy.commit(static_cast<std::uint64_t>(run.n_steps), run_header(trained, params, run).dump()));
  return SavedBytes{result.written_bytes, result.referenced_bytes};
}

Result<RunState> restore_run(const std::string& folders, const Trained& trained, ModelHost& model, Strategy& strategy) {
  CASTOR_ASSIGN(const auto run, strategy.committed());
  if (!run) return no_checkpoint(folders);
  CASTOR_ASSIGN(const auto params, params_of(model));
  CASTOR_ASSIGN(RunHeader header, read_run_header(folders, run->note, trained, params));
  for (const ParamId id : params.ids())
    if (header.orders[id] != order_of(params[id]))
      return Error{ErrorKind::usage,
                   about_checkpoint(folders, "parameter " + std::string(params[id].name) +
                                                 " lies in another order of memory than in that commit; save in other "
                                                 "folders, so that its values are turned"),
                   "resume_from"};
  CASTOR_TRY(strategy.commits().restore());
  return std::move(header.run);
}

}  // namespace castor
