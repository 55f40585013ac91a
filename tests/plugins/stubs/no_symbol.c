/* SPDX-License-Identifier: Apache-2.0 */
/* A library that is no plugin. */
int castor_stub_answer(void);
int castor_stub_answer(void) { return 42; }
