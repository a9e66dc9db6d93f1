#include "tests/support/plugins/test_star.h"

#include <vector>

namespace rueda::test {
namespace {

using core::Call;
using core::Code;
using core::Deadline;
using core::Mesh;
using core::Result;
using core::Slice;
using core::Status;

const rueda_host* star_host = nullptr;

/// All elements of the batch in a row, in the host's memory.
class Packed {
 public:
  explicit Packed(const Call& call)
      : bytes_(static_cast<size_t>(call.count) * sizeof(float)),
        memory_(static_cast<float*>(star_host->allocate(bytes_))) {}
  ~Packed() { star_host->release(memory_); }
  Packed(const Packed&) = delete;
  Packed& operator=(const Packed&) = delete;
  bool there() const { return memory_ != nullptr; }
  float* data() { return memory_; }
  std::span<std::byte> bytes() { return {reinterpret_cast<std::byte*>(memory_), bytes_}; }

 private:
  size_t bytes_;
  float* memory_;
};

float scaled(float value, double scale) { return static_cast<float>(static_cast<double>(value) * scale); }

void pack(const Call& call, float* to) {
  for (const Slice& slice : call.slices) {
    const auto* from = reinterpret_cast<const float*>(slice.in);
    for (int64_t i = 0; i < slice.count; ++i) *to++ = scaled(from[i], call.prescale);
  }
}

void unpack(const Call& call, const float* from) {
  for (const Slice& slice : call.slices) {
    auto* to = reinterpret_cast<float*>(slice.out);
    for (int64_t i = 0; i < slice.count; ++i) to[i] = scaled(*from++, call.postscale);
  }
}

Status receive(core::ChannelSet& channels, int from, std::span<std::byte> bytes, Deadline deadline) {
  const Result<core::Channel*> channel = channels.to(from, deadline);
  if (!channel.ok()) return channel.status();
  const uint64_t end = channel.value()->received() + bytes.size();
  channel.value()->receive(bytes);
  return channels.until([&] { return channel.value()->received() >= end; }, deadline);
}

Status send(core::ChannelSet& channels, int to, std::span<const std::byte> bytes, Deadline deadline) {
  const Result<core::Channel*> channel = channels.to(to, deadline);
  if (!channel.ok()) return channel.status();
  const uint64_t end = channel.value()->sent() + bytes.size();
  channel.value()->send(bytes);
  return channels.until([&] { return channel.value()->sent() >= end; }, deadline);
}

Status no_memory() { return {Code::kSystem, "test_star: no memory for the batch"}; }

Status run(const Call& call, Mesh& mesh, Deadline deadline) {
  if (star_host->aborted(&mesh.abort()) != 0) return mesh.abort().why();
  const std::vector<int>& ranks = call.team->ranks;
  Packed sum(call);
  if (!sum.there()) return no_memory();
  pack(call, sum.data());
  if (call.team->index != 0) {
    RUEDA_RETURN_IF_ERROR(send(mesh.channels(), ranks[0], sum.bytes(), deadline));
    RUEDA_RETURN_IF_ERROR(receive(mesh.channels(), ranks[0], sum.bytes(), deadline));
    unpack(call, sum.data());
    return {};
  }
  Packed other(call);
  if (!other.there()) return no_memory();
  for (size_t member = 1; member < ranks.size(); ++member) {
    RUEDA_RETURN_IF_ERROR(receive(mesh.channels(), ranks[member], other.bytes(), deadline));
    for (int64_t i = 0; i < call.count; ++i) sum.data()[i] += other.data()[i];
  }
  for (size_t member = 1; member < ranks.size(); ++member) {
    RUEDA_RETURN_IF_ERROR(send(mesh.channels(), ranks[member], sum.bytes(), deadline));
  }
  unpack(call, sum.data());
  return {};
}

bool fits(const core::BatchShape& shape) {
  return shape.ranks > 1 && shape.dtype == core::Dtype::kF32 && shape.op == core::ReduceOp::kSum &&
         shape.codec == core::CodecId::kNone && shape.device < 0;
}

core::AlgorithmChoice plan(const core::BatchShape&) { return {}; }

}  // namespace

core::Algorithm star_algorithm(const rueda_host* host) {
  star_host = host;
  return {"test_star", core::OpKind::kAllreduce, true, fits, plan, run, nullptr};
}

}  // namespace rueda::test
