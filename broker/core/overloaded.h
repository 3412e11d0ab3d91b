// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_CORE_OVERLOADED_H_
#define BROKER_CORE_OVERLOADED_H_

namespace rdmabroker {

// For std::visit: one lambda for each alternative.
template <typename... Alternatives>
struct Overloaded : Alternatives... {
  using Alternatives::operator()...;
};
template <typename... Alternatives>
Overloaded(Alternatives...) -> Overloaded<Alternatives...>;

}  // namespace rdmabroker

#endif  // BROKER_CORE_OVERLOADED_H_
