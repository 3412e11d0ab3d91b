// SPDX-License-Identifier: Apache-2.0

#ifndef DATAPLANE_LAST_HINT_H_
#define DATAPLANE_LAST_HINT_H_

namespace rdmabroker {

// Why a function of the library has returned to this thread a status that is neither kSuccess nor kPending, and what to
// do about it, for a person: of the last such function. Not to be parsed. Empty if there was none. Good until the
// thread's next call of the library.
const char* LastHint();

}  // namespace rdmabroker

#endif  // DATAPLANE_LAST_HINT_H_
