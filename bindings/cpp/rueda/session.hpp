#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "rueda/options.hpp"
#include "rueda/store.hpp"
#include "rueda/text.hpp"

namespace rueda {

/// This process's place in the job.
struct Place {
  int32_t rank = 0;
  int32_t size = 1;
};

/// A field left out is read from the environment (hvdrun's, or another launcher's).
struct InitOptions {
  std::optional<Place> place;
  Store* store = nullptr;                   ///< borrowed while the session is being made
  std::string host_name = {};               ///< ranks with the same name try to share memory
  std::span<const std::byte> job_key = {};  ///< pre-shared, at least 16 bytes
  Seconds timeout{0};                       ///< how long to wait for all ranks
  /// Made from the start, the same on all ranks: their numbers are 1, 2, ...
  std::vector<std::vector<int32_t>> process_sets = {};
};

/// One rank of one job. Several may live in one process, also as ranks on threads. Move-only. Every const function may
/// be called from any thread; moving, shutting down and destroying race with nothing.
///
/// All functions throw `Error`: InvalidArgument when the call is wrong, SessionOver when the session can take no more.
/// Tensors are lent from the call until the handle has finished; after a failed in-place operation their contents are
/// unspecified. Blocking forms wait on when a signal arrives.
class Session {
 public:
  /// Joins the job and waits until all ranks have. Timeout: names the ranks that never came. Mismatch: builds or
  /// settings differ, with a table. Another may be made after a failure.
  explicit Session(const InitOptions& options = {}) {
    std::optional<detail::CStore> store;
    if (options.store != nullptr) store.emplace(*options.store);
    rueda_init_options c{};
    c.struct_size = sizeof c;
    c.has_rank = options.place ? 1 : 0;
    if (options.place) {
      c.rank = options.place->rank;
      c.size = options.place->size;
    }
    c.store = store ? store->c_store() : nullptr;
    c.host_name = options.host_name.empty() ? nullptr : options.host_name.c_str();
    c.job_key = options.job_key.empty() ? nullptr : options.job_key.data();
    c.job_key_bytes = options.job_key.size();
    c.timeout_seconds = options.timeout.count();
    std::vector<rueda_process_set> sets;
    for (const auto& ranks : options.process_sets) {
      sets.push_back({sizeof(rueda_process_set), ranks.data(), ranks.size()});
    }
    c.process_sets = sets.data();
    c.process_set_count = sets.size();
    const int32_t code = rueda_init(&c, &session_);
    if (code != RUEDA_OK && store) store->rethrow();
    check(code);
  }
  Session(Session&& other) noexcept
      : session_(std::exchange(other.session_, nullptr)), name_spaces_(other.name_spaces_) {}
  Session& operator=(Session&& other) noexcept {
    if (this != &other) {
      static_cast<void>(rueda_shutdown(session_));
      session_ = std::exchange(other.session_, nullptr);
      name_spaces_ = other.name_spaces_;
    }
    return *this;
  }
  /// As `shutdown`, errors unheard.
  ~Session() { static_cast<void>(rueda_shutdown(session_)); }

  /// Leaves the job: what all ranks submitted before runs, then this rank says goodbye. Bounded: 5 seconds. The session
  /// is empty afterwards. InvalidArgument: inside a callback.
  void shutdown() {
    const int32_t code = rueda_shutdown(session_);
    if (code != RUEDA_INVALID_ARGUMENT) session_ = nullptr;
    check(code);
  }

  int32_t rank() const { return query(rueda_rank(session_)); }
  int32_t size() const { return query(rueda_size(session_)); }
  int32_t local_rank() const { return query(rueda_local_rank(session_)); }
  int32_t local_size() const { return query(rueda_local_size(session_)); }
  int32_t cross_rank() const { return query(rueda_cross_rank(session_)); }
  int32_t cross_size() const { return query(rueda_cross_size(session_)); }
  /// Whether all hosts have the same number of ranks.
  bool is_homogeneous() const { return query(rueda_is_homogeneous(session_)) == 1; }
  /// Throws why the session can take no more operations, where it cannot.
  void check_status() const { check(rueda_session_status(session_)); }
  rueda_session* c_session() const noexcept { return session_; }
  /// What this rank has done so far: a JSON object (docs/guide/diagnosis.md).
  std::string stats() const {
    return detail::text_of(
        [&](char* text, size_t capacity, size_t* bytes) { return rueda_stats(session_, text, capacity, bytes); });
  }
  /// The last operations of this rank, as JSON to `path` ({rank} in it is replaced, else put behind it); an empty path:
  /// in a few lines to the log.
  void dump(const std::string& path = {}) const { check(rueda_dump(session_, path.empty() ? nullptr : path.c_str())); }

  /// Reduces `input` of all ranks element by element; every rank receives the same bits in `output`.
  Handle allreduce_async(const ConstTensor& input, const Tensor& output, const AllreduceOptions& options = {}) const {
    const rueda_tensor in = input.c_tensor();
    const rueda_tensor out = output.c_tensor();
    return detail::COptions(options).enqueue([&](const rueda_op_options* c, rueda_handle* handle) {
      return rueda_allreduce_async(session_, &in, &out, static_cast<int32_t>(options.op), c, handle);
    });
  }
  /// In place.
  Handle allreduce_async(const Tensor& tensor, const AllreduceOptions& options = {}) const {
    return allreduce_async(tensor, tensor, options);
  }
  void allreduce(const ConstTensor& input, const Tensor& output, const AllreduceOptions& options = {}) const {
    const detail::COptions c(options);
    if (c.has_functions()) return wait_out(allreduce_async(input, output, options));
    const rueda_tensor in = input.c_tensor();
    const rueda_tensor out = output.c_tensor();
    check(rueda_allreduce(session_, &in, &out, static_cast<int32_t>(options.op), c.c_options()));
  }
  void allreduce(const Tensor& tensor, const AllreduceOptions& options = {}) const {
    allreduce(tensor, tensor, options);
  }

  /// The same for several tensors as one group in place: accepted whole or not at all, reduced together, one handle.
  /// Member i is named `names[i]`, or "<name>.<i>" where `names` is empty.
  Handle grouped_allreduce_async(std::span<const Tensor> tensors, const AllreduceOptions& options = {},
                                 std::span<const std::string> names = {}) const {
    std::vector<rueda_tensor> c_tensors;
    for (const Tensor& tensor : tensors) c_tensors.push_back(tensor.c_tensor());
    std::vector<const char*> c_names;
    for (const std::string& name : names) c_names.push_back(name.c_str());
    if (!c_names.empty() && c_names.size() != c_tensors.size()) {
      throw InvalidArgument(RUEDA_INVALID_ARGUMENT, "grouped allreduce of " + std::to_string(c_tensors.size()) +
                                                        " tensors with " + std::to_string(c_names.size()) + " names");
    }
    return detail::COptions(options).enqueue([&](const rueda_op_options* c, rueda_handle* handle) {
      return rueda_grouped_allreduce_async(session_, c_tensors.size(), c_tensors.data(), c_tensors.data(),
                                           c_names.empty() ? nullptr : c_names.data(), static_cast<int32_t>(options.op),
                                           c, handle);
    });
  }
  void grouped_allreduce(std::span<const Tensor> tensors, const AllreduceOptions& options = {},
                         std::span<const std::string> names = {}) const {
    wait_out(grouped_allreduce_async(tensors, options, names));
  }

  /// Copies `input` of `options.root` to `output` of all ranks.
  Handle broadcast_async(const ConstTensor& input, const Tensor& output, const BroadcastOptions& options = {}) const {
    const rueda_tensor in = input.c_tensor();
    const rueda_tensor out = output.c_tensor();
    return detail::COptions(options).enqueue([&](const rueda_op_options* c, rueda_handle* handle) {
      return rueda_broadcast_async(session_, &in, &out, options.root, c, handle);
    });
  }
  Handle broadcast_async(const Tensor& tensor, const BroadcastOptions& options = {}) const {
    return broadcast_async(tensor, tensor, options);
  }
  void broadcast(const Tensor& tensor, const BroadcastOptions& options = {}) const {
    wait_out(broadcast_async(tensor, options));
  }

  /// Finishes after all ranks have called it and everything agreed before it has run.
  Handle barrier_async(const BarrierOptions& options = {}) const {
    return detail::COptions(options).enqueue(
        [&](const rueda_op_options* c, rueda_handle* handle) { return rueda_barrier_async(session_, c, handle); });
  }
  void barrier(const BarrierOptions& options = {}) const { wait_out(barrier_async(options)); }

  /// A number that the next caller does not get, counted from 0: equal on all ranks that ask in the same order. Names
  /// made from it never collide. Not for several threads at once.
  int32_t next_name_space() { return name_spaces_++; }

 private:
  static int32_t query(int32_t value) {
    if (value < 0) check(rueda_last_error_code());
    return value;
  }
  static void wait_out(const Handle& handle) {
    for (;;) {
      try {
        return handle.wait();
      } catch (const Interrupted&) {
        continue;  // a blocking form ends with its operation
      }
    }
  }

  rueda_session* session_ = nullptr;
  int32_t name_spaces_ = 0;
};

/// "1.0.0", and the JSON object of `rueda_build_info`.
inline std::string version() { return rueda_version(); }
inline std::string build_info() { return rueda_build_info(); }

}  // namespace rueda
