// SPDX-License-Identifier: Apache-2.0

#ifndef DATAPLANE_RING_H_
#define DATAPLANE_RING_H_

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

namespace rdmabroker {

// A queue that keeps its memory: it allocates only where it holds more than ever before. Not thread-safe.
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

  void push_back(T value) {
    if (size_ == slots_.size()) Rebuild(std::max<size_t>(2 * size_, 8));
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

  // Gives back the memory of all but so many places, of which none that is left out may be taken.
  void shrink(size_t places) {
    if (slots_.size() > places) Rebuild(places);
  }

 private:
  void Rebuild(size_t places) {
    std::vector<T> slots(places);
    for (size_t i = 0; i < size_; ++i) slots[i] = std::move((*this)[i]);
    slots_ = std::move(slots);
    first_ = 0;
  }

  std::vector<T> slots_;
  size_t first_ = 0;
  size_t size_ = 0;
};

}  // namespace rdmabroker

#endif  // DATAPLANE_RING_H_
