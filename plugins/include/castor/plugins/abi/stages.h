/* SPDX-License-Identifier: Apache-2.0 */
/* The host's functions with which a strategy drives the stages of a pipeline inside run_step. All are there, or the
 * table is null: no pipeline. How to read the list: abi/model.h. */

/* Numbers of the model chunks that this rank holds, in the order of the pipeline: `n` of them, valid as long as the
 * host. */
CASTOR_GET(CASTOR_REQUIRED, held_stages, const uint32_t *, (CASTOR_INOUT(uint32_t) n), (n))
/* Runs one action. The strategy's functions for units and gradients are called within it, as in a step that the host
 * drives. */
CASTOR_CALL(CASTOR_REQUIRED, run_stage, (CASTOR_INOUT(castor_stage_call) call), (call))

#include <castor/plugins/abi/end.h>
