// One step of a measurement, through the C API: what a user's program would call, without what a binding adds.
//
//   one tensor        the blocking call
//   several tensors   enqueued from the last to the first, as gradients come, then waited for in the order of layers
//   send              each rank sends to the next and receives from the one before
//
// Tensors of a step lie one after the other in one memory, each at a multiple of 64 bytes, once for each turn of the
// rotation.
#include "benchmarks/rueda_perf/workload.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "benchmarks/rueda_perf/timing.h"

namespace rueda::perf {
namespace {

using core::OpKind;

constexpr size_t kAlignment = 64;
constexpr int kRoot = 0;

size_t round_up(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }

int32_t c_codec(core::CodecId codec) { return static_cast<int32_t>(codec) + RUEDA_CODEC_NONE; }

// Ranks have parts of the whole; tensors are then rounded to equal parts.
bool has_parts(OpKind kind) { return kind == OpKind::kReducescatter || core::exchanges(kind); }

bool gives_share(OpKind kind) { return kind == OpKind::kAllgather || kind == OpKind::kGather; }
bool receives_share(OpKind kind) { return kind == OpKind::kReducescatter || kind == OpKind::kScatter; }
/// Whether what goes to each rank lies in its input one rank's after the other's.
bool deals_out(OpKind kind) {
  return kind == OpKind::kAlltoall || kind == OpKind::kReducescatter || kind == OpKind::kScatter;
}
bool only_root_receives(OpKind kind) { return kind == OpKind::kReduce || kind == OpKind::kGather; }

/// The rank that sends to this one if each sends to the next.
int sender_to(const Job& job) { return (job.rank() + job.size() - 1) % job.size(); }

// What moves data without changing it is checked as a broadcast: the result is what the sender had.
Pattern pattern_of(const Job& job, const Arguments& arguments) {
  if (arguments.collective == OpKind::kSend) return Pattern::of_broadcast(arguments.dtype, job.rank(), sender_to(job));
  if (!core::reduces(arguments.collective)) return Pattern::of_broadcast(arguments.dtype, job.rank(), kRoot);
  return Pattern(arguments.dtype, arguments.op, job.rank(), job.size());
}

}  // namespace

Workload::Workload(const Job& job, const Arguments& arguments, Form form, const std::vector<size_t>& counts)
    : job_(job), arguments_(arguments), pattern_(pattern_of(job, arguments)) {
  const size_t width = core::size_of(arguments.dtype);
  const std::string prefix =
      std::string(core::name_of(arguments.collective)) + "." + std::to_string(counts.size()) + ".";
  tensors_.reserve(counts.size());
  size_t offset = 0;
  const auto ranks = static_cast<size_t>(job.size());
  for (size_t i = 0; i < counts.size(); ++i) {
    const size_t share = std::max<size_t>(1, counts[i] / ranks);
    const size_t count = has_parts(arguments.collective) ? share * ranks : counts[i];
    const size_t bytes = count * width;
    const auto in_count = static_cast<int64_t>(gives_share(arguments.collective) ? share : count);
    const auto out_count = static_cast<int64_t>(receives_share(arguments.collective) ? share : count);
    Member member{offset, bytes, in_count, out_count, share * width, prefix + std::to_string(i), {}, {}, 0, 0};
    offset += round_up(bytes, kAlignment);
    step_bytes_ += bytes;
    tensors_.push_back(std::move(member));
  }
  rotation_ = rotation_of(offset, arguments.buffers);
  input_ = std::make_unique<StepMemory>(job, arguments, rotation_.bytes());
  if (form == Form::kOutOfPlace) output_ = std::make_unique<StepMemory>(job, arguments, rotation_.bytes());
  for (Member& member : tensors_) {  // they no longer move: `shape` points into them
    member.input = {sizeof(rueda_tensor),
                    nullptr,
                    static_cast<int32_t>(arguments.dtype),
                    1,
                    &member.in_count,
                    RUEDA_DEVICE_CPU,
                    0,
                    0,
                    nullptr};
    member.output = member.input;
    member.output.shape = &member.out_count;
  }
}

void Workload::place(size_t turn) {
  const size_t base = rotation_.offset(turn);
  const StepMemory& out = output_ ? *output_ : *input_;
  for (Member& member : tensors_) {
    member.input.data = input_->data() + base + member.offset;
    member.output.data = out.data() + base + member.offset;
  }
}

void Workload::step(size_t turn) {
  if (tensors_.empty()) return check(rueda_barrier(job_.session().c_session(), nullptr));
  place(turn);
  if (tensors_.size() == 1) return run_one(tensors_.front());
  for (size_t i = tensors_.size(); i-- > 0;) enqueue(tensors_[i]);
  for (Member& member : tensors_) finish(member);
}

// The handle goes back before an error is thrown: its sentence is copied first.
void Workload::finish(Member& member) const {
  for (rueda_handle* const handle : {&member.handle, &member.sent}) {
    if (*handle == 0) continue;
    const int32_t code = rueda_wait(*handle, -1.0);
    const std::string sentence = code == RUEDA_OK ? "" : rueda_handle_error(*handle);
    check(rueda_release(std::exchange(*handle, 0)));
    if (code != RUEDA_OK) throw_error(code, sentence);
  }
}

// Receives first: a send waits for its receive, and all ranks do both at once.
void Workload::exchange_with_neighbours(Member& member, const rueda_op_options& options) {
  rueda_session* const session = job_.session().c_session();
  check(rueda_recv_async(session, &member.output, sender_to(job_), &options, &member.handle));
  check(rueda_send_async(session, &member.input, (job_.rank() + 1) % job_.size(), &options, &member.sent));
}

void Workload::run_one(Member& member) {
  rueda_op_options options{};
  options.struct_size = sizeof options;
  options.name = member.name.c_str();
  rueda_session* const session = job_.session().c_session();
  const auto op = static_cast<int32_t>(arguments_.op);
  const rueda_tensor* const in = &member.input;
  const rueda_tensor* const out = &member.output;
  options.codec = c_codec(arguments_.codec);
  switch (arguments_.collective) {
    case OpKind::kBroadcast: return check(rueda_broadcast(session, in, out, kRoot, &options));
    case OpKind::kAllgather: return check(rueda_allgather(session, in, out, &options));
    case OpKind::kAlltoall: return check(rueda_alltoall(session, in, nullptr, out, &options));
    case OpKind::kReducescatter: return check(rueda_reducescatter(session, in, out, op, &options));
    case OpKind::kReduce: return check(rueda_reduce(session, in, out, op, kRoot, &options));
    case OpKind::kGather: return check(rueda_gather(session, in, out, kRoot, &options));
    case OpKind::kScatter: return check(rueda_scatter(session, in, nullptr, out, kRoot, &options));
    case OpKind::kSend: exchange_with_neighbours(member, options); return finish(member);
    default: return check(rueda_allreduce(session, in, out, op, &options));
  }
}

void Workload::enqueue(Member& member) {
  rueda_op_options options{};
  options.struct_size = sizeof options;
  options.name = member.name.c_str();
  rueda_session* const session = job_.session().c_session();
  const auto op = static_cast<int32_t>(arguments_.op);
  const rueda_tensor* const in = &member.input;
  const rueda_tensor* const out = &member.output;
  options.codec = c_codec(arguments_.codec);
  switch (arguments_.collective) {
    case OpKind::kBroadcast: return check(rueda_broadcast_async(session, in, out, kRoot, &options, &member.handle));
    case OpKind::kAllgather: return check(rueda_allgather_async(session, in, out, &options, &member.handle));
    case OpKind::kAlltoall: return check(rueda_alltoall_async(session, in, nullptr, out, &options, &member.handle));
    case OpKind::kReducescatter:
      return check(rueda_reducescatter_async(session, in, out, op, &options, &member.handle));
    case OpKind::kReduce: return check(rueda_reduce_async(session, in, out, op, kRoot, &options, &member.handle));
    case OpKind::kGather: return check(rueda_gather_async(session, in, out, kRoot, &options, &member.handle));
    case OpKind::kScatter:
      return check(rueda_scatter_async(session, in, nullptr, out, kRoot, &options, &member.handle));
    case OpKind::kSend: return exchange_with_neighbours(member, options);
    default: return check(rueda_allreduce_async(session, in, out, op, &options, &member.handle));
  }
}

// What goes to rank r begins at its own position of the period, so that a part meant for another rank shows.
void Workload::fill(const Member& member, size_t index) const {
  auto* const data = static_cast<std::byte*>(member.input.data);
  const auto ranks = static_cast<size_t>(job_.size());
  if (!deals_out(arguments_.collective)) {
    return pattern_.fill({data, static_cast<size_t>(member.in_count) * core::size_of(arguments_.dtype)}, index);
  }
  for (size_t rank = 0; rank < ranks; ++rank) {
    pattern_.fill({data + rank * member.share_bytes, member.share_bytes}, index * ranks + rank);
  }
}

bool Workload::holds(const Member& member, size_t index) const {
  const auto* const data = static_cast<const std::byte*>(member.output.data);
  const auto ranks = static_cast<size_t>(job_.size());
  const size_t own = index * ranks + static_cast<size_t>(job_.rank());
  if (only_root_receives(arguments_.collective) && job_.rank() != kRoot) return true;
  if (receives_share(arguments_.collective)) return pattern_.holds({data, member.share_bytes}, own);
  if (!has_parts(arguments_.collective)) return pattern_.holds({data, member.bytes}, index);
  bool all = true;
  for (size_t rank = 0; rank < ranks; ++rank) {
    const Pattern sent = Pattern::of_broadcast(arguments_.dtype, job_.rank(), static_cast<int>(rank));
    const size_t at = arguments_.collective == OpKind::kAlltoall ? own : index;
    all = sent.holds({data + rank * member.share_bytes, member.share_bytes}, at) && all;
  }
  return all;
}

bool Workload::step_is_correct() {
  if (tensors_.empty()) return barrier_holds();
  place(0);
  for (size_t i = 0; i < tensors_.size(); ++i) {
    fill(tensors_[i], i);
    // A result that nothing writes must not be right by the step before.
    if (output_) std::memset(tensors_[i].output.data, 0x5a, tensors_[i].bytes);
  }
  step(0);
  // All tensors are looked at, also after a wrong one.
  bool all = true;
  for (size_t i = 0; i < tensors_.size(); ++i) {
    all = holds(tensors_[i], i) && all;
  }
  return all;
}

// No rank may leave before the last one came. The clock is the same for all processes of a host.
bool Workload::barrier_holds() {
  const auto now = [] { return std::chrono::duration<double>(Clock::now().time_since_epoch()).count(); };
  const double entered = now();
  step(0);
  const double left = now();
  const double last_entry = job_.max(entered);
  return job_.session().local_size() < job_.size() || left >= last_entry;
}

}  // namespace rueda::perf
