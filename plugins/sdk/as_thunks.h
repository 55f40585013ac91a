// SPDX-License-Identifier: Apache-2.0
// Makes the functions of the next list initialisers of a table: each calls its namesake of `Calls` on a `Side`.
#define CASTOR_CALL0(need, name) .name = Thunk<Side, &Calls::name>::call,
#define CASTOR_CALL(need, name, params, names) .name = Thunk<Side, &Calls::name>::call,
#define CASTOR_GET0(need, name, type) .name = Thunk<Side, &Calls::name>::call,
#define CASTOR_GET(need, name, type, params, names) .name = Thunk<Side, &Calls::name>::call,
#define CASTOR_VALUE0(name, type) .name = Thunk<Side, &Calls::name>::call,
#define CASTOR_VALUE(name, type, params, names) .name = Thunk<Side, &Calls::name>::call,
