/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CASTOR_VERSION_H_
#define CASTOR_VERSION_H_

/* The version of libcastor. A plugin that links it gives this as its castor_tag (castor/plugins/abi.h). */
#define CASTOR_VERSION "0.1.0"

#endif
