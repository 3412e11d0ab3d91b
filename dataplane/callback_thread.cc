// SPDX-License-Identifier: Apache-2.0

#include "dataplane/callback_thread.h"

#include "dataplane/become_callback_thread.h"

namespace rdmabroker {
namespace {

thread_local bool calls_back = false;

}  // namespace

bool OnCallbackThread() { return calls_back; }

void BecomeCallbackThread() { calls_back = true; }

}  // namespace rdmabroker
