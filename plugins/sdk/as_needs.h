// SPDX-License-Identifier: Apache-2.0
// Makes the functions of the next list elements of an array of FunctionNeed over `table`, an OtherSide of `Table`.
#define CASTOR_CALL0(need, name) {#name, need, table.has(&Table::name)},
#define CASTOR_CALL(need, name, params, names) {#name, need, table.has(&Table::name)},
#define CASTOR_GET0(need, name, type) {#name, need, table.has(&Table::name)},
#define CASTOR_GET(need, name, type, params, names) {#name, need, table.has(&Table::name)},
#define CASTOR_VALUE0(name, type) {#name, CASTOR_REQUIRED, table.has(&Table::name)},
#define CASTOR_VALUE(name, type, params, names) {#name, CASTOR_REQUIRED, table.has(&Table::name)},
