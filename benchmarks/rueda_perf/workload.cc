#include "benchmarks/rueda_perf/workload.h"

#include <cstring>

#include "benchmarks/rueda_perf/timing.h"

namespace rueda::perf {
namespace {

constexpr size_t kAlignment = 64;
constexpr int kRoot = 0;

size_t round_up(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }

int32_t c_codec(core::CodecId codec) { return static_cast<int32_t>(codec) + RUEDA_CODEC_NONE; }

Pattern pattern_of(const Job& job, const Arguments& arguments) {
  if (arguments.collective == core::OpKind::kBroadcast) {
    return Pattern::of_broadcast(arguments.dtype, job.rank(), kRoot);
  }
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
  for (size_t i = 0; i < counts.size(); ++i) {
    const size_t bytes = counts[i] * width;
    Member member{offset, bytes, static_cast<int64_t>(counts[i]), prefix + std::to_string(i), {}, {}, 0};
    offset += round_up(bytes, kAlignment);
    step_bytes_ += bytes;
    tensors_.push_back(std::move(member));
  }
  rotation_ = rotation_of(offset, arguments.buffers);
  input_ = std::make_unique<Memory>(rotation_.bytes());
  if (form == Form::kOutOfPlace) output_ = std::make_unique<Memory>(rotation_.bytes());
  for (Member& member : tensors_) {  // they no longer move: `shape` points into them
    member.input = {
        sizeof(rueda_tensor), nullptr, static_cast<int32_t>(arguments.dtype), 1, &member.count, RUEDA_DEVICE_CPU, 0, 0};
    member.output = member.input;
  }
}

void Workload::place(size_t turn) {
  const size_t base = rotation_.offset(turn);
  const Memory& out = output_ ? *output_ : *input_;
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
  for (Member& member : tensors_) {
    const int32_t code = rueda_wait(member.handle, -1.0);
    const std::string sentence = code == RUEDA_OK ? "" : rueda_handle_error(member.handle);
    check(rueda_release(member.handle));
    if (code != RUEDA_OK) throw_error(code, sentence);
  }
}

void Workload::run_one(Member& member) {
  rueda_op_options options{};
  options.struct_size = sizeof options;
  options.name = member.name.c_str();
  rueda_session* const session = job_.session().c_session();
  if (arguments_.collective == core::OpKind::kBroadcast) {
    return check(rueda_broadcast(session, &member.input, &member.output, kRoot, &options));
  }
  options.codec = c_codec(arguments_.codec);
  check(rueda_allreduce(session, &member.input, &member.output, static_cast<int32_t>(arguments_.op), &options));
}

void Workload::enqueue(Member& member) {
  rueda_op_options options{};
  options.struct_size = sizeof options;
  options.name = member.name.c_str();
  rueda_session* const session = job_.session().c_session();
  if (arguments_.collective == core::OpKind::kBroadcast) {
    return check(rueda_broadcast_async(session, &member.input, &member.output, kRoot, &options, &member.handle));
  }
  options.codec = c_codec(arguments_.codec);
  check(rueda_allreduce_async(session, &member.input, &member.output, static_cast<int32_t>(arguments_.op), &options,
                              &member.handle));
}

bool Workload::step_is_correct() {
  if (tensors_.empty()) return barrier_holds();
  place(0);
  for (size_t i = 0; i < tensors_.size(); ++i) {
    pattern_.fill({static_cast<std::byte*>(tensors_[i].input.data), tensors_[i].bytes}, i);
    if (output_) std::memset(tensors_[i].output.data, 0x5a, tensors_[i].bytes);
  }
  step(0);
  bool all = true;
  for (size_t i = 0; i < tensors_.size(); ++i) {
    all = pattern_.holds({static_cast<const std::byte*>(tensors_[i].output.data), tensors_[i].bytes}, i) && all;
  }
  return all;
}

// Nobody may leave before the last one came. The clock is the same for all processes of a host.
bool Workload::barrier_holds() {
  const auto now = [] { return std::chrono::duration<double>(Clock::now().time_since_epoch()).count(); };
  const double entered = now();
  step(0);
  const double left = now();
  const double last_entry = job_.max(entered);
  return job_.session().local_size() < job_.size() || left >= last_entry;
}

}  // namespace rueda::perf
