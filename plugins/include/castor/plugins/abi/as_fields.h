/* SPDX-License-Identifier: Apache-2.0 */
/* Makes the functions of the next list fields of a C struct. */
#define CASTOR_OPEN(...) __VA_ARGS__
#define CASTOR_IN(type) const type *
#define CASTOR_INOUT(type) type *
#define CASTOR_CALL0(need, name) castor_status (*name)(void *self);
#define CASTOR_CALL(need, name, params, names) castor_status (*name)(void *self, CASTOR_OPEN params);
#define CASTOR_GET0(need, name, type) castor_status (*name)(void *self, type *out);
#define CASTOR_GET(need, name, type, params, names) castor_status (*name)(void *self, CASTOR_OPEN params, type *out);
#define CASTOR_VALUE0(name, type) type (*name)(void *self);
#define CASTOR_VALUE(name, type, params, names) type (*name)(void *self, CASTOR_OPEN params);
