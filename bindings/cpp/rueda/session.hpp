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
  /// A timeline of all ranks, or of this one where {rank} is in `path`; see rueda_start_timeline.
  void start_timeline(const std::string& path, bool mark_cycles = false) const {
    check(rueda_start_timeline(session_, path.c_str(), mark_cycles ? 1 : 0));
  }
  void stop_timeline() const { check(rueda_stop_timeline(session_)); }

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

  /// Reduces `input` of all ranks and gives each its rows of the result (dimension 0), dealt out in the order of ranks,
  /// the first ones one row more. `output` may lie where the own rows do in `input`; a late one is like `input` but for
  /// its rows.
  Handle reducescatter_async(const ConstTensor& input, const Tensor& output,
                             const AllreduceOptions& options = {}) const {
    const rueda_tensor in = input.c_tensor();
    const rueda_tensor out = output.c_tensor();
    return detail::COptions(options).enqueue([&](const rueda_op_options* c, rueda_handle* handle) {
      return rueda_reducescatter_async(session_, &in, &out, static_cast<int32_t>(options.op), c, handle);
    });
  }
  /// Into memory of `options.allocate`, or of the library's until the handle goes: see `Handle::output`.
  Handle reducescatter_async(const ConstTensor& input, const AllreduceOptions& options = {}) const {
    const rueda_tensor in = input.c_tensor();
    return detail::COptions(options).enqueue([&](const rueda_op_options* c, rueda_handle* handle) {
      return rueda_reducescatter_async(session_, &in, nullptr, static_cast<int32_t>(options.op), c, handle);
    });
  }
  void reducescatter(const ConstTensor& input, const Tensor& output, const AllreduceOptions& options = {}) const {
    wait_out(reducescatter_async(input, output, options));
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

  /// Reduces `input` of all ranks into `output` of `root`. Elsewhere `output` is not looked at.
  Handle reduce_async(const ConstTensor& input, const Tensor& output, int32_t root,
                      const AllreduceOptions& options = {}) const {
    const rueda_tensor in = input.c_tensor();
    const rueda_tensor out = output.c_tensor();
    return detail::COptions(options).enqueue([&](const rueda_op_options* c, rueda_handle* handle) {
      return rueda_reduce_async(session_, &in, &out, static_cast<int32_t>(options.op), root, c, handle);
    });
  }
  void reduce(const Tensor& tensor, int32_t root, const AllreduceOptions& options = {}) const {
    wait_out(reduce_async(tensor, tensor, root, options));
  }

  /// The exchanges move rows (steps of dimension 0), of which each rank may have another number; what arrives lies in
  /// the order of ranks, in memory of `options.allocate`, else of the library's until the handle goes: see
  /// `Handle::output` and `Handle::received_splits`.

  /// The rows of all ranks, on all ranks.
  Handle allgather_async(const ConstTensor& input, const ExchangeOptions& options = {}) const {
    const rueda_tensor in = input.c_tensor();
    return detail::COptions(options).enqueue([&](const rueda_op_options* c, rueda_handle* handle) {
      return rueda_allgather_async(session_, &in, nullptr, c, handle);
    });
  }
  /// Into memory that has just the shape of what arrives, else InvalidArgument at the wait of this rank.
  Handle allgather_async(const ConstTensor& input, const Tensor& output, const ExchangeOptions& options = {}) const {
    const rueda_tensor in = input.c_tensor();
    const rueda_tensor out = output.c_tensor();
    return detail::COptions(options).enqueue([&](const rueda_op_options* c, rueda_handle* handle) {
      return rueda_allgather_async(session_, &in, &out, c, handle);
    });
  }
  /// The elements of all ranks' ranges.
  template <ElementRange R>
  auto allgather(const R& range, const ExchangeOptions& options = {}) const {
    return elements_of(range, allgather_async(range, options));
  }

  /// The same for several tensors as one group: see `grouped_allreduce_async`.
  Handle grouped_allgather_async(std::span<const ConstTensor> inputs, const ExchangeOptions& options = {}) const {
    std::vector<rueda_tensor> c_tensors;
    for (const ConstTensor& input : inputs) c_tensors.push_back(input.c_tensor());
    return detail::COptions(options).enqueue([&](const rueda_op_options* c, rueda_handle* handle) {
      return rueda_grouped_allgather_async(session_, c_tensors.size(), c_tensors.data(), nullptr, nullptr, c, handle);
    });
  }

  /// Rank r gets the next `splits[r]` rows of every rank's input; without splits all get as many.
  Handle alltoall_async(const ConstTensor& input, std::span<const int64_t> splits = {},
                        const ExchangeOptions& options = {}) const {
    const rueda_tensor in = input.c_tensor();
    check_splits(splits, options.process_set);
    return detail::COptions(options).enqueue([&](const rueda_op_options* c, rueda_handle* handle) {
      return rueda_alltoall_async(session_, &in, splits.empty() ? nullptr : splits.data(), nullptr, c, handle);
    });
  }
  template <ElementRange R>
  auto alltoall(const R& range, std::span<const int64_t> splits = {}, const ExchangeOptions& options = {}) const {
    return elements_of(range, alltoall_async(range, splits, options));
  }

  /// The rows of all ranks, on `root`; elsewhere the handle has no output.
  Handle gather_async(const ConstTensor& input, int32_t root, const ExchangeOptions& options = {}) const {
    const rueda_tensor in = input.c_tensor();
    return detail::COptions(options).enqueue([&](const rueda_op_options* c, rueda_handle* handle) {
      return rueda_gather_async(session_, &in, nullptr, root, c, handle);
    });
  }
  /// Empty but on the root.
  template <ElementRange R>
  auto gather(const R& range, int32_t root, const ExchangeOptions& options = {}) const {
    return elements_of(range, gather_async(range, root, options));
  }

  /// Rank r gets the next `splits[r]` rows of the root's input; without splits they are dealt out as in
  /// `reducescatter`. Elsewhere `input` is looked at for its dtype and the shape of a row only.
  Handle scatter_async(const ConstTensor& input, int32_t root, std::span<const int64_t> splits = {},
                       const ExchangeOptions& options = {}) const {
    const rueda_tensor in = input.c_tensor();
    if (rank() == root) check_splits(splits, options.process_set);
    return detail::COptions(options).enqueue([&](const rueda_op_options* c, rueda_handle* handle) {
      return rueda_scatter_async(session_, &in, splits.empty() ? nullptr : splits.data(), nullptr, root, c, handle);
    });
  }
  template <ElementRange R>
  auto scatter(const R& range, int32_t root, std::span<const int64_t> splits = {},
               const ExchangeOptions& options = {}) const {
    return elements_of(range, scatter_async(range, root, splits, options));
  }

  /// Sends `input` to rank `peer`, which receives it under the same name; nobody else takes part.
  Handle send_async(const ConstTensor& input, int32_t peer, const ExchangeOptions& options = {}) const {
    const rueda_tensor in = input.c_tensor();
    return detail::COptions(options).enqueue([&](const rueda_op_options* c, rueda_handle* handle) {
      return rueda_send_async(session_, &in, peer, c, handle);
    });
  }
  void send(const ConstTensor& input, int32_t peer, const ExchangeOptions& options = {}) const {
    wait_out(send_async(input, peer, options));
  }
  Handle recv_async(const Tensor& output, int32_t peer, const ExchangeOptions& options = {}) const {
    const rueda_tensor out = output.c_tensor();
    return detail::COptions(options).enqueue([&](const rueda_op_options* c, rueda_handle* handle) {
      return rueda_recv_async(session_, &out, peer, c, handle);
    });
  }
  void recv(const Tensor& output, int32_t peer, const ExchangeOptions& options = {}) const {
    wait_out(recv_async(output, peer, options));
  }

  /// Finishes after all ranks have called it and everything agreed before it has run.
  Handle barrier_async(const BarrierOptions& options = {}) const {
    return detail::COptions(options).enqueue(
        [&](const rueda_op_options* c, rueda_handle* handle) { return rueda_barrier_async(session_, c, handle); });
  }
  void barrier(const BarrierOptions& options = {}) const { wait_out(barrier_async(options)); }

  /// A number for `name`, the same each time, for the options' `name_id`. InvalidArgument: empty, over 1024 bytes.
  NameId intern(const std::string& name) const {
    NameId id;
    check(rueda_intern(session_, name.c_str(), &id.value));
    return id;
  }
  /// Readable while there is something to drain: for a poll of yours. The session's; gone when it shuts down.
  int completion_fd() const {
    int32_t fd = -1;
    check(rueda_completion_fd(session_, &fd));
    return fd;
  }
  /// Fills the front of `out` with operations that have finished and were enqueued with `drain`, and returns that part.
  /// Each is told once, while its handle lives: an entry's `handle` is some `Handle::id()`. Never blocks.
  std::span<const rueda_completion> drain(std::span<rueda_completion> out) const {
    size_t count = 0;
    check(rueda_drain(session_, out.data(), out.size(), &count));
    return out.first(count);
  }

  /// This rank has no more to give: until all members have joined, it takes part in their operations with nothing, and
  /// whatever it submits in that set is refused. See rueda_join_async. `Handle::last_joined` says who was the last.
  Handle join_async(const JoinOptions& options = {}) const {
    return detail::COptions(options).enqueue(
        [&](const rueda_op_options* c, rueda_handle* handle) { return rueda_join_async(session_, c, handle); });
  }
  /// The rank of the job that joined last.
  int32_t join(const JoinOptions& options = {}) const {
    const Handle handle = join_async(options);
    wait_out(handle);
    return handle.last_joined();
  }

  /// A number that the next caller does not get, counted from 0: equal on all ranks that ask in the same order. Names
  /// made from it never collide. Not for several threads at once.
  int32_t next_name_space() { return name_spaces_++; }

 private:
  static int32_t query(int32_t value) {
    if (value < 0) check(rueda_last_error_code());
    return value;
  }
  void check_splits(std::span<const int64_t> splits, int32_t set) const {
    if (splits.empty()) return;
    const int32_t members = query(rueda_process_set_size(session_, set));
    if (splits.size() == static_cast<size_t>(members)) return;
    throw InvalidArgument(RUEDA_INVALID_ARGUMENT,
                          std::to_string(splits.size()) + " splits for " + std::to_string(members) + " ranks");
  }
  /// What arrived, in elements of the range's type.
  template <ElementRange R>
  static auto elements_of(const R& range, const Handle& handle) {
    using T = std::remove_cv_t<std::remove_pointer_t<decltype(std::data(range))>>;
    wait_out(handle);
    const auto arrived = handle.output().template elements<T>();
    return std::vector<T>(arrived.begin(), arrived.end());
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
