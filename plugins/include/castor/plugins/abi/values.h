/* SPDX-License-Identifier: Apache-2.0 */
/* The strategy's functions for weights, states and gradients. How to read the list: abi/model.h. Unless a comment says
 * otherwise they are called between two steps, or between attach and the first, and may wait. */

/* The parts of a parameter whose master and states this rank keeps; null: all of every parameter. */
CASTOR_GET(CASTOR_OPTIONAL, owned_ranges, castor_ranges, (uint32_t param), (param))

/* Copies fp32 masters to host memory. Refused where this rank does not keep them. */
CASTOR_CALL(CASTOR_REQUIRED, read_masters, (CASTOR_IN(castor_values) values), (values))

/* read_state fills the arrays and n_updates; write_state takes them over and sets the weights from the masters. Values
 * that one strategy has read another takes over, wherever either keeps them; with all values of every parameter it
 * continues with the same bits. */
CASTOR_CALL(CASTOR_FEATURE("save its states"), read_state, (CASTOR_INOUT(castor_param_state) state), (state))
CASTOR_CALL(CASTOR_WITH(read_state), write_state, (CASTOR_IN(castor_param_state) state), (state))

/* Copies the gradients gathered since the last step from or to host memory, as fp32; between the last end_of_backward
 * and begin_step. A parameter without a gradient has none to read, and gets one by writing all its values. */
CASTOR_CALL(CASTOR_FEATURE("read gradients"), read_gradient, (CASTOR_IN(castor_values) values), (values))
CASTOR_CALL(CASTOR_WITH(read_gradient), write_gradient, (CASTOR_IN(castor_values) values), (values))

/* From the next micro-batch on the parameter takes gradients (1) or none (0). */
CASTOR_CALL(CASTOR_FEATURE("freeze parameters later on"), set_trainable, (uint32_t param, int32_t trainable),
            (param, trainable))

/* Binds parameters to their whole, up-to-date weights until they are released. With CASTOR_WRITE the weights are taken
 * over at release as new masters, rounded weights included. Every acquire has one release with the same values, before
 * the next micro-batch. Collective. */
CASTOR_CALL(CASTOR_FEATURE("lend weights outside a unit"), acquire, (CASTOR_IN(castor_access) access), (access))
CASTOR_CALL(CASTOR_WITH(acquire), release, (CASTOR_IN(castor_access) access), (access))

#include <castor/plugins/abi/end.h>
