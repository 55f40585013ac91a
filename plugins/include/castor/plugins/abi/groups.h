/* SPDX-License-Identifier: Apache-2.0 */
/* The host's functions between ranks. All are there, or the table is null: one rank. How to read the list:
 * abi/model.h.
 *
 * Every function but n_groups, group_info and status is collective over its group and may wait for its ranks. All ranks
 * of a group call them in one order. On a device group a collective is queued on the stream of the call and has ended
 * when the stream has passed it; on a host group it has ended when it returns. */

CASTOR_VALUE0(n_groups, uint32_t)
CASTOR_GET(CASTOR_REQUIRED, group_info, castor_group_info, (uint32_t group), (group))

/* recv holds the parts of all ranks, in the order of ranks. */
CASTOR_CALL(CASTOR_REQUIRED, all_gather, (CASTOR_IN(castor_collective) call), (call))
/* send holds a part for each rank, in the order of ranks; recv gets the sum of this rank's parts, in the order of
 * ranks. */
CASTOR_CALL(CASTOR_REQUIRED, reduce_scatter, (CASTOR_IN(castor_collective) call), (call))
CASTOR_CALL(CASTOR_REQUIRED, all_reduce, (CASTOR_IN(castor_collective) call), (call))
CASTOR_CALL(CASTOR_REQUIRED, broadcast, (CASTOR_IN(castor_collective) call), (call))
/* n elements to and from each rank. */
CASTOR_CALL(CASTOR_REQUIRED, all_to_all, (CASTOR_IN(castor_collective) call), (call))
CASTOR_CALL(CASTOR_REQUIRED, send, (CASTOR_IN(castor_collective) call), (call))
CASTOR_CALL(CASTOR_REQUIRED, recv, (CASTOR_IN(castor_collective) call), (call))
/* The calls of a group between the two are queued as one: no order is kept among them. */
CASTOR_CALL(CASTOR_REQUIRED, begin_batch, (uint32_t group), (group))
CASTOR_CALL(CASTOR_REQUIRED, end_batch, (uint32_t group), (group))

/* Makes numbers in host memory equal on all ranks of a group. */
CASTOR_CALL(CASTOR_REQUIRED, agree, (CASTOR_IN(castor_agreement) agreement), (agreement))

/* CASTOR_OK, or the error that ended the group: a rank that failed, died or did not come in time. Any thread. */
CASTOR_CALL(CASTOR_REQUIRED, status, (uint32_t group), (group))
/* Ends the group: calls under way on other ranks, and all that follow, fail and name `why`. Any thread. */
CASTOR_CALL(CASTOR_REQUIRED, abort, (uint32_t group, const char *why), (group, why))

#include <castor/plugins/abi/end.h>
