// SPDX-License-Identifier: Apache-2.0

#ifndef DATAPLANE_CALLBACK_THREAD_H_
#define DATAPLANE_CALLBACK_THREAD_H_

namespace rdmabroker {

// Whether this is a thread of the library's, on which it calls callbacks: a session's or a data path's. Nothing may
// wait there for a callback, which may need this very thread. A close completion may also be called on the thread of
// whoever gave the last reference back.
bool OnCallbackThread();

}  // namespace rdmabroker

#endif  // DATAPLANE_CALLBACK_THREAD_H_
