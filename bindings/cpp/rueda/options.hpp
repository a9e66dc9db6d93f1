#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "rueda/handle.hpp"

namespace rueda {

enum class ReduceOp : int32_t {
  kAverage = RUEDA_AVERAGE,
  kSum = RUEDA_SUM,
  kAdasum = RUEDA_ADASUM,  ///< floats
  kMin = RUEDA_MIN,
  kMax = RUEDA_MAX,
  kProduct = RUEDA_PRODUCT,
  kBand = RUEDA_BAND,  ///< bitwise: integers and bool
  kBor = RUEDA_BOR,
  kBxor = RUEDA_BXOR
};

/// The type in which f32 and f64 elements travel.
enum class Codec : int32_t {
  kDefault = RUEDA_CODEC_DEFAULT,  ///< RUEDA_COMPRESSION, else none
  kNone = RUEDA_CODEC_NONE,
  kFp16 = RUEDA_CODEC_FP16,
  kBf16 = RUEDA_CODEC_BF16
};

/// The divisor of an average while some ranks have joined.
enum class AverageOver : int32_t { kMembers = RUEDA_OVER_MEMBERS, kContributors = RUEDA_OVER_CONTRIBUTORS };

/// The result of an operation, for its callback.
struct Completion {
  int32_t code = RUEDA_OK;
  std::string sentence;  ///< empty if it succeeded or if the handle was released before
  bool ok() const { return code == RUEDA_OK; }
};

/// Called exactly once, on the session's completer thread, one at a time. It may enqueue, poll and release. Waits and
/// blocking operations inside it throw InvalidArgument. The library catches and logs an exception that leaves it.
using Callback = std::function<void(const Completion&)>;

/// The memory that a late output needs: `bytes` bytes, aligned to 64, on `device`, usable on `stream`. Converts to the
/// number of bytes, for callers without devices.
struct MemoryRequest {
  size_t bytes = 0;
  Device device = {};
  void* stream = nullptr;
  operator size_t() const { return bytes; }  // NOLINT(google-explicit-constructor): see above
};

/// Allocates a late output, for example `[](size_t bytes) {...}`. Called once, on a library thread. If it returns null
/// or throws, this rank's operation fails; on its peers it succeeds.
using Allocate = std::function<void*(const MemoryRequest& request)>;

/// A name as `Session::intern` has numbered it. An enqueue by number does not read the text.
struct NameId {
  int64_t value = 0;  ///< 0: none
};

/// Makes `Session::drain` report the end of an operation together with this context. Blocking forms ignore it.
struct Drain {
  void* context = nullptr;
};

/// Options of one operation. Zero, `{}` or left out is the default of every field. An empty name keys the operation by
/// kind and call order; `name_id` replaces a name. `more`: more operations follow at once, so no thread is woken for
/// this one; it stays on this rank until any thread enqueues without `more`, waits, polls or drains, for about a second
/// at most; blocking forms ignore it. `timeout`: the limit of the operation, see `timeout_seconds` in rueda.h; zero:
/// RUEDA_TIMEOUT_SECONDS.
struct AllreduceOptions {
  ReduceOp op = ReduceOp::kAverage;
  std::string name = {};
  int32_t process_set = RUEDA_GLOBAL_SET;
  Codec codec = Codec::kDefault;
  double prescale = 1.0;   ///< multiplies the input
  double postscale = 1.0;  ///< multiplies the sum
  AverageOver over = AverageOver::kMembers;
  void* stream = nullptr;
  Callback callback = {};
  Allocate allocate = {};
  NameId name_id = {};
  std::optional<Drain> drain = {};
  bool more = false;
  Seconds timeout{0};
};

struct BroadcastOptions {
  int32_t root = 0;  ///< a rank of the job
  std::string name = {};
  int32_t process_set = RUEDA_GLOBAL_SET;
  void* stream = nullptr;
  Callback callback = {};
  Allocate allocate = {};
  NameId name_id = {};
  std::optional<Drain> drain = {};
  bool more = false;
  Seconds timeout{0};
};

/// Options of operations that move rows unchanged. `same_rows`: all ranks give as many rows to an all-gather, see
/// rueda_allgather_async in rueda.h.
struct ExchangeOptions {
  std::string name = {};
  int32_t process_set = RUEDA_GLOBAL_SET;
  void* stream = nullptr;
  Callback callback = {};
  Allocate allocate = {};
  NameId name_id = {};
  std::optional<Drain> drain = {};
  bool more = false;
  Seconds timeout{0};
  bool same_rows = false;
};

struct BarrierOptions {
  std::string name = {};
  int32_t process_set = RUEDA_GLOBAL_SET;
  Callback callback = {};
  NameId name_id = {};
  std::optional<Drain> drain = {};
  bool more = false;
  Seconds timeout{0};
};

struct JoinOptions {
  int32_t process_set = RUEDA_GLOBAL_SET;
  Callback callback = {};
  std::optional<Drain> drain = {};
};

namespace detail {

/// The functions of one operation. They live on the heap from enqueue until the C callback, which runs exactly once and
/// frees them.
struct Functions {
  Callback callback = {};
  Allocate allocate = {};

  static void finished(void* context, rueda_handle handle, int32_t code) {
    const std::unique_ptr<Functions> self(static_cast<Functions*>(context));
    if (self->callback) self->callback({code, code == RUEDA_OK ? "" : rueda_handle_error(handle)});
  }
  static void* memory(void* context, size_t bytes, int32_t device, int32_t device_index, void* stream) {
    try {
      return static_cast<Functions*>(context)->allocate({bytes, {device, device_index}, stream});
    } catch (...) {
      return nullptr;  // the documented way to refuse
    }
  }
};

/// The options as rueda.h takes them, and the owner of the functions until the library has accepted them.
class COptions {
 public:
  explicit COptions(const AllreduceOptions& options) : COptions(options, options.allocate) {
    c_.codec = static_cast<int32_t>(options.codec);
    c_.has_scale = 1;
    c_.prescale = options.prescale;
    c_.postscale = options.postscale;
    c_.average_over = static_cast<int32_t>(options.over);
    c_.stream = options.stream;
  }
  explicit COptions(const BroadcastOptions& options) : COptions(options, options.allocate) {
    c_.stream = options.stream;
  }
  explicit COptions(const ExchangeOptions& options) : COptions(options, options.allocate) {
    c_.stream = options.stream;
    c_.same_rows = options.same_rows ? 1 : 0;
  }
  explicit COptions(const BarrierOptions& options) : COptions(options, Allocate()) {}

  explicit COptions(const JoinOptions& options)
      : COptions(
            BarrierOptions{.process_set = options.process_set, .callback = options.callback, .drain = options.drain}) {}

  /// Enqueues with `call(const rueda_op_options*, rueda_handle*)`. After success the library's callback owns the
  /// functions and may already have freed them.
  template <typename Call>
  Handle enqueue(Call call) {
    rueda_handle handle = 0;
    check(call(&c_, &handle));
    static_cast<void>(functions_.release());
    return Handle(handle);
  }
  /// Returns whether there are functions to own. A blocking call could not tell whether the library has accepted them.
  bool has_functions() const { return functions_ != nullptr; }
  const rueda_op_options* c_options() const { return &c_; }

 private:
  template <typename Options>
  COptions(const Options& options, const Allocate& allocate) : name_(options.name) {
    c_.struct_size = sizeof c_;
    c_.name = name_.empty() ? nullptr : name_.c_str();
    c_.process_set = options.process_set;
    c_.name_id = options.name_id.value;
    c_.more = options.more ? 1 : 0;
    c_.drain = options.drain ? 1 : 0;
    c_.drain_context = options.drain ? options.drain->context : nullptr;
    c_.timeout_seconds = options.timeout.count();
    if (!options.callback && !allocate) return;
    functions_ = std::make_unique<Functions>(Functions{options.callback, allocate});
    c_.callback = &Functions::finished;
    c_.callback_context = functions_.get();
    if (allocate) c_.allocate = &Functions::memory;
    c_.allocate_context = functions_.get();
  }

  std::string name_;
  std::unique_ptr<Functions> functions_;
  rueda_op_options c_{};
};

}  // namespace detail
}  // namespace rueda
