/* SPDX-License-Identifier: Apache-2.0 */
/* The host's functions that every plugin needs: the model as units and parameters. All are there.
 *
 * How to read a list: CASTOR_CALL(need, name, parameters, their names) is the function
 *   castor_status name(void *self, parameters)
 * and CASTOR_GET(need, name, type, …) has one more parameter, `type *out`, that it fills. CASTOR_VALUE(name, type, …)
 * returns a `type` and cannot fail. A 0 behind the word: no parameters. CASTOR_IN(T) is a `const T *`, CASTOR_INOUT(T) a
 * `T *`, neither of them null. `need`: CASTOR_REQUIRED; CASTOR_OPTIONAL, null means "nothing to do"; CASTOR_WITH(f), as
 * f; CASTOR_FEATURE("do a thing"), null means that the plugin "cannot do a thing". */

/* Leaves the error of the status about to be returned. Copied. Any thread. */
CASTOR_VALUE(set_error, void, (CASTOR_IN(castor_error) error), (error))
/* Any thread. */
CASTOR_VALUE(log, void, (castor_log_level level, const char *message), (level, message))

CASTOR_VALUE0(n_units, uint32_t)
CASTOR_VALUE0(n_params, uint32_t)
CASTOR_VALUE0(n_buffers, uint32_t)
CASTOR_GET(CASTOR_REQUIRED, unit_info, castor_unit_info, (uint32_t unit), (unit))
CASTOR_GET(CASTOR_REQUIRED, unit_layout, castor_unit_layout, (uint32_t unit), (unit))
CASTOR_GET(CASTOR_REQUIRED, param_info, castor_param_info, (uint32_t param), (param))
CASTOR_GET(CASTOR_REQUIRED, param_layout, castor_param_layout, (uint32_t param), (param))
CASTOR_GET(CASTOR_REQUIRED, buffer_info, castor_buffer_info, (uint32_t buffer), (buffer))

/* Fills host memory with the values that the parameter begins with. They depend on the model alone (its seed, or the
 * values that were loaded), never on order or placement. Any thread, and several at once. May wait (for a file). */
CASTOR_CALL(CASTOR_REQUIRED, first_values, (CASTOR_IN(castor_values) values), (values))

/* From now on the parameter reads and writes `data`: device memory of numel elements of its dtype that starts at a
 * multiple of 512 B. The parameter keeps its storage object for life, so views that autograd saved follow. */
CASTOR_CALL(CASTOR_REQUIRED, bind, (uint32_t param, void *data), (param, data))
/* Takes the memory away. An access to the parameter before the next bind is an error that says `why`. */
CASTOR_CALL(CASTOR_REQUIRED, unbind, (uint32_t param, const char *why), (param, why))

CASTOR_VALUE0(device, DLDevice)
/* cudaStream_t of the stream that the model computes on now; null where the device is the host. */
CASTOR_VALUE0(compute_stream, void *)

/* 1 once the user has asked to stop; a plugin that is about to wait long returns CASTOR_INTERRUPTED. Any thread. */
CASTOR_VALUE0(interrupted, int32_t)

#include <castor/plugins/abi/end.h>
