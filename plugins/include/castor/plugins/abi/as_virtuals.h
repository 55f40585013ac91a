// SPDX-License-Identifier: Apache-2.0
// Makes the functions of the next list virtual functions of a C++ class, which by default do what absence means.
#define CASTOR_OPEN(...) __VA_ARGS__
#define CASTOR_IN(type) const type&
#define CASTOR_INOUT(type) type&
#define CASTOR_CALL0(need, name) \
  virtual ::castor::Result<void> name() { return ::castor::by_default<void>(need, #name); }
#define CASTOR_CALL(need, name, params, names) \
  virtual ::castor::Result<void> name params { return ::castor::by_default<void>(need, #name, CASTOR_OPEN names); }
#define CASTOR_GET0(need, name, type) \
  virtual ::castor::Result<type> name() { return ::castor::by_default<type>(need, #name); }
#define CASTOR_GET(need, name, type, params, names) \
  virtual ::castor::Result<type> name params { return ::castor::by_default<type>(need, #name, CASTOR_OPEN names); }
#define CASTOR_VALUE0(name, type) \
  virtual type name() { return ::castor::nothing<type>(); }
#define CASTOR_VALUE(name, type, params, names) \
  virtual type name params { return ::castor::nothing<type>(CASTOR_OPEN names); }
