#pragma once
#include <cstddef>
#include <utility>
#include <vector>

namespace rueda::core {

/// A queue in one vector that keeps its memory. Items taken from the front leave a gap, which closes when the queue
/// runs empty or the gap is the larger half. Not shared between threads.
template <typename T>
class Fifo {
 public:
  bool empty() const { return head_ == items_.size(); }
  size_t size() const { return items_.size() - head_; }
  T& front() { return items_[head_]; }
  const T& front() const { return items_[head_]; }
  /// Counted from the front.
  T& operator[](size_t index) { return items_[head_ + index]; }
  const T& operator[](size_t index) const { return items_[head_ + index]; }
  auto begin() { return items_.begin() + static_cast<std::ptrdiff_t>(head_); }
  auto end() { return items_.end(); }
  auto begin() const { return items_.begin() + static_cast<std::ptrdiff_t>(head_); }
  auto end() const { return items_.end(); }
  void push_back(T item) { items_.push_back(std::move(item)); }
  T& emplace_back() { return items_.emplace_back(); }
  T pop_front() {
    T item = std::move(items_[head_++]);
    close_gap();
    return item;
  }
  /// Destroys the front item where it is, which saves the moves of `pop_front`.
  void drop_front() {
    if (head_ + 1 == items_.size()) return clear();
    items_[head_++] = T();
    close_gap();
  }
  void clear() {
    items_.clear();
    head_ = 0;
  }
  /// Removes the items that `matches` accepts. Returns how many there were.
  template <typename Matches>
  size_t remove_if(Matches matches) {
    items_.erase(items_.begin(), begin());
    head_ = 0;
    return std::erase_if(items_, matches);
  }

 private:
  void close_gap() {
    if (head_ == items_.size()) {
      clear();
    } else if (head_ >= 64 && head_ * 2 > items_.size()) {
      items_.erase(items_.begin(), begin());
      head_ = 0;
    }
  }
  std::vector<T> items_;
  size_t head_ = 0;
};

}  // namespace rueda::core
