/* SPDX-License-Identifier: Apache-2.0 */
/* Ends a list: the next one may be made into something else. */
#undef CASTOR_OPEN
#undef CASTOR_IN
#undef CASTOR_INOUT
#undef CASTOR_CALL0
#undef CASTOR_CALL
#undef CASTOR_GET0
#undef CASTOR_GET
#undef CASTOR_VALUE0
#undef CASTOR_VALUE
