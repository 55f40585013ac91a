/* SPDX-License-Identifier: Apache-2.0 */
/* The strategy's functions for runs that outlive the process, in folders of its own. How to read the list: abi/model.h.
 * They are called between two steps, or between attach and the first, are collective, and may wait. All return
 * CASTOR_USAGE where the strategy's options do not turn this on. */

/* Begins to make the current states, weights and counters of every parameter durable, as `step`, in one instant together
 * with `note`. Until commit_wait has returned, and where it fails, the last commit stays valid, whenever the process or
 * the machine stops. Refused where the folders hold a run that this one does not continue. */
CASTOR_CALL(CASTOR_FEATURE("commit its states"), commit_begin, (CASTOR_IN(castor_commit_args) args), (args))
/* Returns once the commit that was begun is durable. */
CASTOR_GET0(CASTOR_WITH(commit_begin), commit_wait, castor_commit_result)
/* Finds the last commit in the folders, of this run or of an earlier one. */
CASTOR_GET0(CASTOR_WITH(commit_begin), last_commit, castor_committed_run)
/* Continues from the commit that the folders held when the strategy was created, in place of first values. */
CASTOR_CALL0(CASTOR_WITH(commit_begin), restore)

#include <castor/plugins/abi/end.h>
