#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "rueda/activity.hpp"
#include "rueda/group_arrays.hpp"
#include "rueda/init.hpp"
#include "rueda/options.hpp"
#include "rueda/text.hpp"

namespace rueda {
struct Membership;

/// One rank of one job. One process may hold several sessions, for example one on each of its threads. Move-only. Any
/// thread may call a const function. No other call may run while a session is moved, shut down or destroyed.
///
/// All functions throw `Error`: InvalidArgument if the call is wrong, SessionOver if the session can take no more
/// operations. Tensors are lent from the call until the handle has finished; after a failed in-place operation their
/// contents are unspecified. Blocking forms continue to wait after a signal.
class Session {
 public:
  /// Joins the job and waits until all ranks have joined it. Timeout: ranks never came; the sentence names them.
  /// Mismatch: builds or settings differ; the sentence has a table. After a failure another session can be made.
  explicit Session(const InitOptions& options = {}) : session_(detail::CInitOptions(options).init()) {}
  Session(Session&& other) noexcept
      : session_(std::exchange(other.session_, nullptr)),
        activity_(std::move(other.activity_)),
        name_spaces_(other.name_spaces_) {}
  Session& operator=(Session&& other) noexcept {
    if (this != &other) {
      static_cast<void>(end());
      session_ = std::exchange(other.session_, nullptr);
      activity_ = std::move(other.activity_);
      name_spaces_ = other.name_spaces_;
    }
    return *this;
  }
  /// Calls `shutdown` and ignores its errors.
  ~Session() { static_cast<void>(end()); }

  /// Leaves the job: operations that all ranks have submitted run to their end, then this rank says goodbye. Waits 5
  /// seconds at most for them; see rueda_shutdown. The session is empty afterwards. InvalidArgument: inside a callback.
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
  /// Returns whether all hosts have the same number of ranks.
  bool is_homogeneous() const { return query(rueda_is_homogeneous(session_)) == 1; }
  // For elastic jobs, and abort for every job: rueda/elastic.hpp describes these.
  void reset(Seconds timeout = Seconds(0)) const;
  void abort(const std::string& reason) const;
  Membership membership() const;
  int membership_fd() const;
  int64_t worker_id() const;
  int64_t worker_at(int32_t rank) const;
  bool holds_state(int32_t rank) const;
  /// Throws the reason if the session can take no more operations.
  void check_status() const { check(rueda_session_status(session_)); }
  rueda_session* c_session() const noexcept { return session_; }
  /// The counters of this rank as a JSON object (docs/guide/diagnosis.md).
  std::string stats() const {
    return detail::text_of(
        [&](char* text, size_t capacity, size_t* bytes) { return rueda_stats(session_, text, capacity, bytes); });
  }
  /// Writes the flight record, the last operations of this rank, as JSON to `path`: {rank} in it is replaced, else the
  /// rank is appended. An empty path writes a few lines to the log.
  void dump(const std::string& path = {}) const { check(rueda_dump(session_, path.empty() ? nullptr : path.c_str())); }
  /// Starts a timeline of all ranks, or of this rank if `path` contains {rank}; see rueda_start_timeline.
  void start_timeline(const std::string& path, bool mark_cycles = false) const {
    check(rueda_start_timeline(session_, path.c_str(), mark_cycles ? 1 : 0));
  }
  void stop_timeline() const { check(rueda_stop_timeline(session_)); }
  /// Sets the callback that tells what the program is doing; an empty one removes it. A replaced callback may still run
  /// and is destroyed afterwards; none runs after `shutdown` or the destructor. NotInitialized: the session is over.
  void set_activity_callback(ActivityCallback callback) const {
    detail::Activity::set(activity_.get(), session_, std::move(callback));
  }

  /// Reduces the `input` of all ranks element by element; every rank receives the same bits in `output`.
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

  /// The same for several tensors as one group, in place: accepted whole or not at all, reduced together, one handle.
  /// Tensor i is named `names[i]`, or "<name>.<i>" if `names` is empty.
  Handle grouped_allreduce_async(std::span<const Tensor> tensors, const AllreduceOptions& options = {},
                                 std::span<const std::string> names = {}) const {
    const detail::CGroup group(tensors, tensors, names);
    return detail::COptions(options).enqueue([&](const rueda_op_options* c, rueda_handle* handle) {
      return rueda_grouped_allreduce_async(session_, group.count(), group.inputs(), group.outputs(), group.names(),
                                           static_cast<int32_t>(options.op), c, handle);
    });
  }
  void grouped_allreduce(std::span<const Tensor> tensors, const AllreduceOptions& options = {},
                         std::span<const std::string> names = {}) const {
    wait_out(grouped_allreduce_async(tensors, options, names));
  }

  /// Reduces the `input` of all ranks and gives each rank its rows of the result (dimension 0), dealt out in rank
  /// order; the first ranks get one row more. `output` may be the slice of `input` that holds this rank's rows. A late
  /// output has the shape of `input` except for its number of rows.
  Handle reducescatter_async(const ConstTensor& input, const Tensor& output,
                             const AllreduceOptions& options = {}) const {
    const rueda_tensor in = input.c_tensor();
    const rueda_tensor out = output.c_tensor();
    return detail::COptions(options).enqueue([&](const rueda_op_options* c, rueda_handle* handle) {
      return rueda_reducescatter_async(session_, &in, &out, static_cast<int32_t>(options.op), c, handle);
    });
  }
  /// Writes to memory of `options.allocate`, or of the library until the handle is destroyed: see `Handle::output`.
  Handle reducescatter_async(const ConstTensor& input, const AllreduceOptions& options = {}) const {
    const rueda_tensor in = input.c_tensor();
    return detail::COptions(options).enqueue([&](const rueda_op_options* c, rueda_handle* handle) {
      return rueda_reducescatter_async(session_, &in, nullptr, static_cast<int32_t>(options.op), c, handle);
    });
  }
  void reducescatter(const ConstTensor& input, const Tensor& output, const AllreduceOptions& options = {}) const {
    wait_out(reducescatter_async(input, output, options));
  }

  /// Copies the `input` of `options.root` to the `output` of all ranks.
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

  /// Reduces the `input` of all ranks into the `output` of `root`. On the other ranks `output` is ignored.
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

  /// The exchanges move rows (steps of dimension 0). Each rank may have a different number of rows. Rows arrive in rank
  /// order, in memory of `options.allocate`, else of the library until the handle is destroyed: see `Handle::output`
  /// and `Handle::received_splits`.

  /// Gathers the rows of all ranks on all ranks.
  Handle allgather_async(const ConstTensor& input, const ExchangeOptions& options = {}) const {
    const rueda_tensor in = input.c_tensor();
    return detail::COptions(options).enqueue([&](const rueda_op_options* c, rueda_handle* handle) {
      return rueda_allgather_async(session_, &in, nullptr, c, handle);
    });
  }
  /// Writes to memory that must have exactly the shape that arrives; otherwise the wait of this rank throws
  /// InvalidArgument.
  Handle allgather_async(const ConstTensor& input, const Tensor& output, const ExchangeOptions& options = {}) const {
    const rueda_tensor in = input.c_tensor();
    const rueda_tensor out = output.c_tensor();
    return detail::COptions(options).enqueue([&](const rueda_op_options* c, rueda_handle* handle) {
      return rueda_allgather_async(session_, &in, &out, c, handle);
    });
  }
  /// Gathers the elements of all ranks' ranges.
  template <ElementRange R>
  auto allgather(const R& range, const ExchangeOptions& options = {}) const {
    return elements_of(range, allgather_async(range, options));
  }

  /// The same for several tensors as one group: see `grouped_allreduce_async`.
  Handle grouped_allgather_async(std::span<const ConstTensor> inputs, const ExchangeOptions& options = {}) const {
    const detail::CTensors in(inputs);
    return detail::COptions(options).enqueue([&](const rueda_op_options* c, rueda_handle* handle) {
      return rueda_grouped_allgather_async(session_, in.count(), in.data(), nullptr, nullptr, c, handle);
    });
  }

  /// Rank r receives the next `splits[r]` rows of every rank's input; without splits all ranks receive equally many.
  Handle alltoall_async(const ConstTensor& input, std::span<const int64_t> splits = {},
                        const ExchangeOptions& options = {}) const {
    return alltoall_to(input, nullptr, splits, options);
  }
  /// Writes to memory that must have exactly the shape that arrives, as `allgather_async` does.
  Handle alltoall_async(const ConstTensor& input, std::span<const int64_t> splits, const Tensor& output,
                        const ExchangeOptions& options = {}) const {
    return alltoall_to(input, &output, splits, options);
  }
  template <ElementRange R>
  auto alltoall(const R& range, std::span<const int64_t> splits = {}, const ExchangeOptions& options = {}) const {
    return elements_of(range, alltoall_async(range, splits, options));
  }

  /// Gathers the rows of all ranks on `root`; on the other ranks the handle has no output.
  Handle gather_async(const ConstTensor& input, int32_t root, const ExchangeOptions& options = {}) const {
    return gather_to(input, nullptr, root, options);
  }
  /// Writes to memory that must have exactly the shape that arrives; on ranks other than `root` the memory is ignored.
  Handle gather_async(const ConstTensor& input, const Tensor& output, int32_t root,
                      const ExchangeOptions& options = {}) const {
    return gather_to(input, &output, root, options);
  }
  /// Returns an empty vector on ranks other than the root.
  template <ElementRange R>
  auto gather(const R& range, int32_t root, const ExchangeOptions& options = {}) const {
    return elements_of(range, gather_async(range, root, options));
  }

  /// Rank r receives the next `splits[r]` rows of the root's input; without splits they are dealt out as in
  /// `reducescatter`. On the other ranks only the dtype and row shape of `input` are read.
  Handle scatter_async(const ConstTensor& input, int32_t root, std::span<const int64_t> splits = {},
                       const ExchangeOptions& options = {}) const {
    return scatter_to(input, nullptr, root, splits, options);
  }
  /// Writes to memory that must have exactly the shape that arrives.
  Handle scatter_async(const ConstTensor& input, int32_t root, std::span<const int64_t> splits, const Tensor& output,
                       const ExchangeOptions& options = {}) const {
    return scatter_to(input, &output, root, splits, options);
  }
  template <ElementRange R>
  auto scatter(const R& range, int32_t root, std::span<const int64_t> splits = {},
               const ExchangeOptions& options = {}) const {
    return elements_of(range, scatter_async(range, root, splits, options));
  }

  /// Sends `input` to rank `peer`, which receives it under the same name; no other rank takes part.
  Handle send_async(const ConstTensor& input, int32_t peer, const ExchangeOptions& options = {}) const {
    const rueda_tensor in = input.c_tensor();
    return detail::COptions(options).enqueue([&](const rueda_op_options* c, rueda_handle* handle) {
      return rueda_send_async(session_, &in, peer, c, handle);
    });
  }
  void send(const ConstTensor& input, int32_t peer, const ExchangeOptions& options = {}) const {
    wait_out(send_async(input, peer, options));
  }
  /// Receives from rank `peer`, or with RUEDA_ANY_SOURCE from the member of the set that sends first; `Handle::source`
  /// returns that rank.
  Handle recv_async(const Tensor& output, int32_t peer, const ExchangeOptions& options = {}) const {
    const rueda_tensor out = output.c_tensor();
    return detail::COptions(options).enqueue([&](const rueda_op_options* c, rueda_handle* handle) {
      return rueda_recv_async(session_, &out, peer, c, handle);
    });
  }
  void recv(const Tensor& output, int32_t peer, const ExchangeOptions& options = {}) const {
    wait_out(recv_async(output, peer, options));
  }

  /// Finishes once all ranks have called it and every operation agreed before it has run.
  Handle barrier_async(const BarrierOptions& options = {}) const {
    return detail::COptions(options).enqueue(
        [&](const rueda_op_options* c, rueda_handle* handle) { return rueda_barrier_async(session_, c, handle); });
  }
  void barrier(const BarrierOptions& options = {}) const { wait_out(barrier_async(options)); }

  /// Returns a number for `name`, equal for equal names, for `name_id` in options. InvalidArgument: the name is empty
  /// or exceeds 1024 bytes.
  NameId intern(const std::string& name) const {
    NameId id;
    check(rueda_intern(session_, name.c_str(), &id.value));
    return id;
  }
  /// A descriptor that is readable while there is something to drain, for an event loop of the caller's. It belongs to
  /// the session and is closed by its shutdown.
  int completion_fd() const {
    int32_t fd = -1;
    check(rueda_completion_fd(session_, &fd));
    return fd;
  }
  /// Fills the front of `out` with finished operations that were enqueued with `drain` and returns that part. Each is
  /// reported once, while its handle lives: an entry's `handle` equals some `Handle::id()`. Never blocks.
  std::span<const rueda_completion> drain(std::span<rueda_completion> out) const {
    size_t count = 0;
    check(rueda_drain(session_, out.data(), out.size(), &count));
    return out.first(count);
  }

  /// This rank has no more data. Until all members have joined, it takes part in their operations with a neutral
  /// contribution, and its own operations in that set are refused. See rueda_join_async. `Handle::last_joined` returns
  /// the rank that joined last.
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

  /// Returns a number that no later call returns, counted from 0. It is equal on all ranks that ask in the same order,
  /// so names made from it never collide. Not for several threads at once.
  int32_t next_name_space() { return name_spaces_++; }

 private:
  static int32_t query(int32_t value) {
    if (value < 0) check(rueda_last_error_code());
    return value;
  }
  /// `output`: null, a late one.
  Handle alltoall_to(const ConstTensor& input, const Tensor* output, std::span<const int64_t> splits,
                     const ExchangeOptions& options) const {
    check_splits(splits, options.process_set);
    const detail::COneOrNone in(&input), out(output);
    return detail::COptions(options).enqueue([&](const rueda_op_options* c, rueda_handle* handle) {
      return rueda_alltoall_async(session_, in.data(), splits.empty() ? nullptr : splits.data(), out.data(), c, handle);
    });
  }
  Handle gather_to(const ConstTensor& input, const Tensor* output, int32_t root, const ExchangeOptions& options) const {
    const detail::COneOrNone in(&input), out(output);
    return detail::COptions(options).enqueue([&](const rueda_op_options* c, rueda_handle* handle) {
      return rueda_gather_async(session_, in.data(), out.data(), root, c, handle);
    });
  }
  Handle scatter_to(const ConstTensor& input, const Tensor* output, int32_t root, std::span<const int64_t> splits,
                    const ExchangeOptions& options) const {
    if (rank() == root) check_splits(splits, options.process_set);
    const detail::COneOrNone in(&input), out(output);
    return detail::COptions(options).enqueue([&](const rueda_op_options* c, rueda_handle* handle) {
      return rueda_scatter_async(session_, in.data(), splits.empty() ? nullptr : splits.data(), out.data(), root, c,
                                 handle);
    });
  }
  void check_splits(std::span<const int64_t> splits, int32_t set) const {
    if (splits.empty()) return;
    const int32_t members = query(rueda_process_set_size(session_, set));
    if (splits.size() == static_cast<size_t>(members)) return;
    throw InvalidArgument(RUEDA_INVALID_ARGUMENT,
                          std::to_string(splits.size()) + " splits for " + std::to_string(members) + " ranks");
  }
  /// The data that arrived, in elements of the range's type.
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

  /// Inside a callback the library refuses to shut down and goes on, so everything that it may call stays alive.
  int32_t end() noexcept {
    const int32_t code = rueda_shutdown(std::exchange(session_, nullptr));
    if (code == RUEDA_INVALID_ARGUMENT) static_cast<void>(activity_.release());
    return code;
  }

  rueda_session* session_ = nullptr;
  std::unique_ptr<detail::Activity> activity_ = std::make_unique<detail::Activity>();
  int32_t name_spaces_ = 0;
};

/// "1.0.0", and the JSON object of `rueda_build_info`.
inline std::string version() { return rueda_version(); }
inline std::string build_info() { return rueda_build_info(); }

}  // namespace rueda
