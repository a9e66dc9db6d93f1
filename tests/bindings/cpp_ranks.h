#pragma once
#include <array>
#include <chrono>
#include <functional>
#include <optional>
#include <string>

#include "rueda.hpp"
#include "runtime/store/memory_store.h"
#include "tests/support/rank_threads.h"

namespace rueda::test {

/// A store inside this process, as the C++ binding takes it.
class ThreadStore : public Store {
 public:
  explicit ThreadStore(core::MemoryStore& store) : store_(store) {}
  void set(std::string_view key, std::string_view value) override { expect(store_.set(key, value).ok(), "set"); }
  std::optional<std::string> get(std::string_view key, Seconds timeout) override {
    auto found = store_.get(key, core::Deadline::after(std::chrono::duration_cast<std::chrono::nanoseconds>(timeout)));
    return found.ok() ? std::optional(found.value()) : std::nullopt;
  }
  int64_t add(std::string_view key, int64_t amount) override { return store_.add(key, amount).value(); }

 private:
  core::MemoryStore& store_;
};

/// Ranks as threads, each with a session of a new job.
inline void cpp_ranks(int size, const std::function<void(Session& session)>& body) {
  core::MemoryStore memory;
  const std::array<std::byte, 32> key = {std::byte{7}};
  on_threads(size, [&](int rank) {
    ThreadStore store(memory);
    Session session({.place = Place{rank, size}, .store = &store, .job_key = key, .timeout = Seconds(120)});
    body(session);
  });
}

}  // namespace rueda::test
