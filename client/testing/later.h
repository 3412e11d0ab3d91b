// SPDX-License-Identifier: Apache-2.0

#ifndef CLIENT_TESTING_LATER_H_
#define CLIENT_TESTING_LATER_H_

#include <future>
#include <memory>
#include <utility>

namespace rdmabroker::client {

// A value that a callback will give. Copies share it, so that the callback's copy outlives the one that waits.
template <typename Value>
class Later {
 public:
  void Set(Value value) const { promise_->set_value(std::move(value)); }
  Value Get() const { return promise_->get_future().get(); }

 private:
  std::shared_ptr<std::promise<Value>> promise_ = std::make_shared<std::promise<Value>>();
};

}  // namespace rdmabroker::client

#endif  // CLIENT_TESTING_LATER_H_
