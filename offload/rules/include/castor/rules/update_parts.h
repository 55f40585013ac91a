// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

#include <castor/memory/host_team.h>
#include <castor/memory/result.h>
#include <castor/rules/update_arrays.h>

namespace castor {

/// A job that updates `arrays` part by part (kUpdatePartElements): threads take parts in turn, so none waits longer for a
/// slower one than a part takes. `update` is called for each part, from any of the team's threads.
HostTeam::Job job_of_parts(const UpdateArrays& arrays, std::function<Result<void>(const UpdateArrays&)> update);

}  // namespace castor
