/* SPDX-License-Identifier: Apache-2.0 */
/* The strategy's functions for units, gradients and steps. How to read the list: abi/model.h. */

/* Places every parameter. Called once, before anything else. Collective; may wait. */
CASTOR_CALL0(CASTOR_REQUIRED, attach)

/* A micro-batch is about to begin. A host that cannot say (a bare loss.backward()) sets CASTOR_MICRO_UNKNOWN, or does
 * not call it. Collective. */
CASTOR_CALL(CASTOR_OPTIONAL, begin_micro_batch, (CASTOR_IN(castor_micro_batch) batch), (batch))

/* Around each use of a unit. Recomputation calls before_forward and after_forward again, inside backward. A unit whose
 * input needs no gradient has no after_backward: end_of_backward closes it. Collective; the two before may wait. */
CASTOR_CALL(CASTOR_OPTIONAL, before_forward, (uint32_t unit), (unit))
CASTOR_CALL(CASTOR_OPTIONAL, after_forward, (uint32_t unit), (unit))
CASTOR_CALL(CASTOR_OPTIONAL, before_backward, (uint32_t unit), (unit))
CASTOR_CALL(CASTOR_OPTIONAL, after_backward, (uint32_t unit), (unit))

/* A gradient of the parameter's shape, dtype and order of elements on the model's device; the host has checked it.
 * Ownership moves, also when the call fails: the plugin calls grad->deleter (where it is not null) when it has read it.
 * Several gradients of one parameter within a step add up in fp32, in the order of arrival. May wait. */
CASTOR_CALL(CASTOR_REQUIRED, gradient, (uint32_t param, DLManagedTensor *grad), (param, grad))

/* The backward pass of one micro-batch has ended. Collective; may wait. */
CASTOR_CALL0(CASTOR_OPTIONAL, end_of_backward)

/* Announces the backward pass after which begin_step will be called, with exactly these values. Where they need no
 * norm, the strategy may update a parameter as soon as its last gradient has arrived. Collective. */
CASTOR_CALL(CASTOR_OPTIONAL, announce_step, (CASTOR_IN(castor_step_args) args), (args))

/* Updates the parameters from the gradients gathered since the last step, and gives the step a number. It returns when
 * the work is queued. A parameter without a gradient is left alone: moments, decay and counter. The norm of all
 * gradients is taken where max_norm > 0 or loss_scale != 1; if it is then not finite the step is skipped, which drops
 * the gradients and advances no counter. Otherwise gradients are not checked, so that a parameter may be updated before
 * the last gradient has arrived. Collective; may wait. */
CASTOR_GET(CASTOR_REQUIRED, begin_step, uint64_t, (CASTOR_IN(castor_step_args) args), (args))
/* What became of step `ticket`, the last one that was begun. May wait. */
CASTOR_GET(CASTOR_REQUIRED, step_result, castor_step_result, (uint64_t ticket), (ticket))

/* Drops the gradients gathered since the last step, and the step's announcement: also after a failure or where the step
 * was broken off. The next micro-batch begins a step anew, with the bits of one that never broke. Refused with
 * CASTOR_FAILED where parameters have been updated already, since the model is then between two steps. Collective. */
CASTOR_CALL0(CASTOR_FEATURE("drop gradients; start again"), discard_gradients)

/* The norm of the gradients gathered so far, scale included, for callers that clip or unscale themselves. Between the
 * last end_of_backward and begin_step. Collective; may wait. */
CASTOR_GET0(CASTOR_FEATURE("measure the norm of the gradients before the step"), measure_norm, double)

/* Frees `n_bytes` or more of the device, because the model's allocator is full; *out: the bytes freed, fewer where no
 * more can leave. May wait. */
CASTOR_GET(CASTOR_OPTIONAL, reclaim, uint64_t, (uint64_t n_bytes), (n_bytes))

/* Runs a whole step of a pipeline but its update: calls run_stage for each action of its schedule on the stages that
 * this rank holds, and moves the tensors between ranks. begin_step follows. Collective; may wait. */
CASTOR_CALL(CASTOR_FEATURE("drive a pipeline"), run_step, (CASTOR_INOUT(castor_pipeline_step) step), (step))

/* May be called at any time, also after a failure. */
CASTOR_GET0(CASTOR_REQUIRED, stats, castor_stats)

/* Writes the events so far as a trace file (docs/trace.md). May wait. */
CASTOR_CALL(CASTOR_FEATURE("write a trace"), write_trace, (const char *path), (path))

#include <castor/plugins/abi/end.h>
