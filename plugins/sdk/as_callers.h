// SPDX-License-Identifier: Apache-2.0
// Makes the functions of the next list overrides that call the other side's table through `other_`, an OtherSide of
// `Table`.
#define CASTOR_OPEN(...) __VA_ARGS__
#define CASTOR_IN(type) const type&
#define CASTOR_INOUT(type) type&
#define CASTOR_CALL0(need, name) \
  Result<void> name() override { return other_.call(&Table::name, need, #name); }
#define CASTOR_CALL(need, name, params, names) \
  Result<void> name params override { return other_.call(&Table::name, need, #name, CASTOR_OPEN names); }
#define CASTOR_GET0(need, name, type) \
  Result<type> name() override { return other_.get<type>(&Table::name, need, #name); }
#define CASTOR_GET(need, name, type, params, names) \
  Result<type> name params override { return other_.get<type>(&Table::name, need, #name, CASTOR_OPEN names); }
#define CASTOR_VALUE0(name, type) \
  type name() override { return other_.value(&Table::name); }
#define CASTOR_VALUE(name, type, params, names) \
  type name params override { return other_.value(&Table::name, CASTOR_OPEN names); }
