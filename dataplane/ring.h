// SPDX-License-Identifier: Apache-2.0

#ifndef DATAPLANE_RING_H_
#define DATAPLANE_RING_H_

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

namespace rdmabroker {

// A queue that keeps its memory: it allocates only where it holds more than ever before, and more than it was made
// fit for. Of that memory it uses little while it holds little. Not thread-safe.
template <typename T>
class Ring {
 public:
  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }

  // The oldest is at place 0. The place must be taken.
  T& operator[](size_t place) {
    const size_t index = first_ + place;
    return slots_[index < slots_.size() ? index : index - slots_.size()];
  }
  T& front() { return (*this)[0]; }
  const T& front() const { return slots_[first_]; }

  // Has memory for exactly so many places from now on; at least as many as are taken.
  void fit(size_t places) {
    std::vector<T> slots;
    slots.reserve(places);
    for (size_t i = 0; i < size_; ++i) slots.push_back(std::move((*this)[i]));
    slots_ = std::move(slots);
    first_ = 0;
  }

  void push_back(T value) {
    if (size_ == slots_.size()) {
      const size_t more = std::max(2 * size_, kFirst);
      std::rotate(slots_.begin(), slots_.begin() + static_cast<std::ptrdiff_t>(first_), slots_.end());
      first_ = 0;
      slots_.resize(size_ < slots_.capacity() ? std::min(more, slots_.capacity()) : more);
    }
    ++size_;
    (*this)[size_ - 1] = std::move(value);
  }

  // At most as many as there are.
  void pop_front(size_t count = 1) {
    size_ -= count;
    first_ += count;
    if (first_ >= slots_.size()) first_ -= slots_.size();
  }

  // Leaves the first so many.
  void truncate(size_t count) { size_ = std::min(size_, count); }
  void clear() { size_ = first_ = 0; }

 private:
  static constexpr size_t kFirst = 8;

  std::vector<T> slots_;
  size_t first_ = 0;
  size_t size_ = 0;
};

}  // namespace rdmabroker

#endif  // DATAPLANE_RING_H_
