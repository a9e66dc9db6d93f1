#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "rueda/session.hpp"

namespace rueda {

/// A process set: a subset of the job's ranks, as this rank has made it. The options of operations take its number. Its
/// members alone or all ranks make it, with the sets in any order, and it can be used at once: see
/// rueda_process_set_add. Move-only. The session must outlive it. One thread at a time may move, remove or destroy it;
/// any thread may query it.
///
/// The destructor removes the set. While operations of this rank are in flight in it, the set stays until the session
/// ends.
class ProcessSet {
 public:
  /// InvalidArgument: no ranks, a rank twice or outside the job, a name that this rank uses for another set.
  ProcessSet(const Session& session, std::span<const int32_t> ranks, const std::string& name = {})
      : session_(session.c_session()) {
    check(rueda_process_set_add(session_, ranks.size(), ranks.data(), name.empty() ? nullptr : name.c_str(), &number_));
  }
  ProcessSet(ProcessSet&& other) noexcept
      : session_(std::exchange(other.session_, nullptr)), number_(std::exchange(other.number_, -1)) {}
  ProcessSet& operator=(ProcessSet&& other) noexcept {
    if (this != &other) {
      drop();
      session_ = std::exchange(other.session_, nullptr);
      number_ = std::exchange(other.number_, -1);
    }
    return *this;
  }
  ~ProcessSet() { drop(); }

  /// The number for the options of operations; it belongs to this rank.
  int32_t number() const noexcept { return number_; }
  /// The members in ascending order.
  std::vector<int32_t> ranks() const {
    std::vector<int32_t> members(static_cast<size_t>(size()));
    size_t count = 0;
    check(rueda_process_set_ranks(session_, number_, members.data(), members.size(), &count));
    return members;
  }
  int32_t size() const { return query(rueda_process_set_size(session_, number_)); }
  bool included() const { return rueda_process_set_rank(session_, number_) >= 0; }
  /// The position of this rank among the members. InvalidArgument: this rank is not a member.
  int32_t rank() const { return query(rueda_process_set_rank(session_, number_)); }

  /// Stops the use of the set by this rank. InvalidArgument: operations of this rank are in flight in it.
  void remove() {
    check(rueda_process_set_remove(session_, number_));
    session_ = nullptr;
    number_ = -1;
  }

 private:
  static int32_t query(int32_t value) {
    if (value < 0) check(rueda_last_error_code());
    return value;
  }
  void drop() noexcept {
    if (number_ > 0) static_cast<void>(rueda_process_set_remove(session_, number_));
  }

  rueda_session* session_ = nullptr;
  int32_t number_ = -1;
};

}  // namespace rueda
