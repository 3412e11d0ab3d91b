// SPDX-License-Identifier: Apache-2.0

#ifndef DATAPLANE_BECOME_CALLBACK_THREAD_H_
#define DATAPLANE_BECOME_CALLBACK_THREAD_H_

namespace rdmabroker {

// For the library's own threads: OnCallbackThread is true on the calling one from now on.
void BecomeCallbackThread();

}  // namespace rdmabroker

#endif  // DATAPLANE_BECOME_CALLBACK_THREAD_H_
