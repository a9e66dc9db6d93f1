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
  /// As `shutdown`, errors unheard.
  ~Session() { static_cast<void>(end()); }

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
  /// Who says what the program is doing; an empty one: nobody is asked. One that was replaced may still be running, and
  /// is destroyed behind it; when `shutdown` or the destructor has returned none runs. NotInitialized: it is over.
  void set_activity_callback(ActivityCallback callback) const {
    detail::Activity::set(activity_.get(), session_, std::move(callback));
  }

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
    const detail::CTensors in(inputs);
    return detail::COptions(options).enqueue([&](const rueda_op_options* c, rueda_handle* handle) {
      return rueda_grouped_allgather_async(session_, in.count(), in.data(), nullptr, nullptr, c, handle);
    });
  }

  /// Rank r gets the next `splits[r]` rows of every rank's input; without splits all get as many.
  Handle alltoall_async(const ConstTensor& input, std::span<const int64_t> splits = {},
                        const ExchangeOptions& options = {}) const {
    return alltoall_to(input, nullptr, splits, options);
  }
  /// Into memory that has just the shape of what arrives, as of `allgather_async`.
  Handle alltoall_async(const ConstTensor& input, std::span<const int64_t> splits, const Tensor& output,
                        const ExchangeOptions& options = {}) const {
    return alltoall_to(input, &output, splits, options);
  }
  template <ElementRange R>
  auto alltoall(const R& range, std::span<const int64_t> splits = {}, const ExchangeOptions& options = {}) const {
    return elements_of(range, alltoall_async(range, splits, options));
  }

  /// The rows of all ranks, on `root`; elsewhere the handle has no output.
  Handle gather_async(const ConstTensor& input, int32_t root, const ExchangeOptions& options = {}) const {
    return gather_to(input, nullptr, root, options);
  }
  /// Into memory that has just the shape of what arrives; elsewhere than on `root` it is not looked at.
  Handle gather_async(const ConstTensor& input, const Tensor& output, int32_t root,
                      const ExchangeOptions& options = {}) const {
    return gather_to(input, &output, root, options);
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
    return scatter_to(input, nullptr, root, splits, options);
  }
  /// Into memory that has just the shape of what arrives.
  Handle scatter_async(const ConstTensor& input, int32_t root, std::span<const int64_t> splits, const Tensor& output,
                       const ExchangeOptions& options = {}) const {
    return scatter_to(input, &output, root, splits, options);
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
  /// From rank `peer`, or from whichever other member of the set sends first, RUEDA_ANY_SOURCE: `Handle::source` says
  /// who.
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

  /// Inside a callback the library refuses, and goes on: what it may call then stays.
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
