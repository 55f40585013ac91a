// SPDX-License-Identifier: Apache-2.0
#include "errors.h"

#include <new>

#include "crossing.h"

namespace castor::sdk {

ErrorKind kind_of(castor_status status) {
  switch (status) {
    case CASTOR_USAGE: return ErrorKind::usage;
    case CASTOR_DOES_NOT_FIT: return ErrorKind::does_not_fit;
    case CASTOR_IO: return ErrorKind::io;
    case CASTOR_PLUGIN: return ErrorKind::plugin;
    case CASTOR_INTERRUPTED: return ErrorKind::interrupted;
    default: return ErrorKind::failed;
  }
}

castor_status status_of(ErrorKind kind) { return static_cast<castor_status>(kind); }

castor_error crossing_error(const Error& error) {
  auto crossing = blank<castor_error>();
  crossing.status = status_of(error.kind);
  crossing.message = error.message.c_str();
  crossing.option = error.option.empty() ? nullptr : error.option.c_str();
  crossing.tier = error.shortage ? static_cast<std::int32_t>(error.shortage->tier) : -1;
  if (!error.shortage) return crossing;
  crossing.needed_bytes = error.shortage->needed_bytes;
  crossing.available_bytes = error.shortage->available_bytes;
  return crossing;
}

Error error_from(const castor_error& crossed) {
  Error error = {kind_of(crossed.status), crossed.message == nullptr ? "" : crossed.message};
  if (crossed.option != nullptr) error.option = crossed.option;
  if (crossed.tier >= 0 && crossed.tier < CASTOR_N_TIERS)
    error.shortage = Shortage{static_cast<Tier>(crossed.tier), crossed.needed_bytes, crossed.available_bytes};
  return error;
}

Error current_error(const std::string& prefix) {
  try {
    throw;
  } catch (const ErrorException& e) {
    return e.error();
  } catch (const ContractViolation& e) {
    return {ErrorKind::plugin, prefix + e.what()};
  } catch (const std::bad_alloc&) {
    return {ErrorKind::does_not_fit, prefix + "out of memory for its own bookkeeping"};
  } catch (const std::exception& e) {
    return {ErrorKind::failed, prefix + e.what()};
  } catch (...) {
    return {ErrorKind::failed, prefix + "an exception that is no std::exception was thrown"};
  }
}

}  // namespace castor::sdk
