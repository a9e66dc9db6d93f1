// How fast the kernels pack, unpack and cast, beside copies of the device's own memory by the driver that move as many
// bytes: the limit of the memory in the same run. A batch goes in the rounds in which the plug-in would launch it.
#include "ops/cuda/kernels.h"

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "benchmarks/gpu/gpu.h"
#include "benchmarks/rueda_perf/resnet50.h"
#include "compression/codec.h"
#include "ops/cuda/fusion_buffer.h"
#include "ops/cuda/pack_image.h"
#include "ops/cuda/pack_plan.h"

namespace rueda::gpu_speed {
namespace {

using core::CodecId;
using cuda::PackParameters;
using cuda::PackPiece;
using cuda::PackPlan;
using cuda::PackWay;

constexpr int kRounds = 31;

struct Batch {
  std::string name;
  std::vector<size_t> counts;
};

PackPlan plan_of(CodecId codec) {
  static const core::Team team{.ranks = {0, 1}, .groups = {2}, .hosts = {}};
  core::Call call;
  call.team = &team;
  call.codec = codec;
  return cuda::pack_plan_of(call).value();
}

PackParameters parameters_of(const PackPlan& plan, PackWay way, const std::vector<PackPiece>& pieces, uint32_t tiles,
                             std::byte* buffer, CUstream stream) {
  PackParameters made{};
  made.task = {.way = way,
               .wire = plan.wire,
               .dtype = plan.part,
               .element_bytes = static_cast<uint32_t>(core::size_of(plan.part)),
               .pieces = static_cast<uint32_t>(pieces.size()),
               .tiles = tiles,
               .lanes = cuda::lanes_for(pieces.data(), pieces.size(), tiles),
               .unused = 0,
               .divisor = 1,
               .factor = 1.0,
               .neutral = plan.neutral,
               .table = nullptr,
               .buffer = buffer};
  if (pieces.size() <= cuda::kHeldPieces) {
    std::copy(pieces.begin(), pieces.end(), made.held);
    return made;
  }
  const size_t bytes = pieces.size() * sizeof(PackPiece);
  std::byte* const table = Gpu::one().allocate(bytes);
  auto* const pinned = static_cast<PackPiece*>(Gpu::one().allocate_pinned(bytes));
  std::copy(pieces.begin(), pieces.end(), pinned);
  Gpu::one().copy(table, pinned, bytes, stream);
  Gpu::one().drain(stream);
  made.task.table = reinterpret_cast<const PackPiece*>(table);
  return made;
}

/// The launches of a batch: one for each round of the buffer.
std::vector<PackParameters> launches_of(const Batch& batch, const PackPlan& plan, PackWay way, std::byte* tensors,
                                        std::byte* buffer, CUstream stream) {
  std::vector<core::Slice> slices;
  size_t at = 0;
  for (const size_t count : batch.counts) {
    slices.push_back({tensors + at, tensors + at, static_cast<int64_t>(count)});
    at += (count * sizeof(float) + 511) / 512 * 512;  // as allocators of frameworks align
  }
  cuda::PackRounds rounds(slices, plan, cuda::FusionBuffer::kBytes, cuda::FusionBuffer::kMostPieces);
  std::vector<PackPiece> pieces;
  std::vector<PackParameters> launches;
  while (rounds.next(pieces)) {
    launches.push_back(parameters_of(plan, way, pieces, rounds.tiles(), buffer, stream));
  }
  return launches;
}

void measure(const Batch& batch, const cuda::Kernels& kernels, std::byte* tensors, std::byte* other, size_t room,
             std::byte* buffer, CUstream stream) {
  Gpu& gpu = Gpu::one();
  size_t elements = 0;
  for (const size_t count : batch.counts) elements += count;
  for (const CodecId codec : {CodecId::kNone, CodecId::kFp16, CodecId::kBf16}) {
    const PackPlan plan = plan_of(codec);
    // A copy reads and writes each byte.
    const size_t moved = elements * (sizeof(float) + static_cast<size_t>(plan.wire_bytes));
    const size_t copied = std::min(moved / 2, room);
    for (const PackWay way : {PackWay::kGather, PackWay::kScatter}) {
      const auto launches = launches_of(batch, plan, way, tensors, buffer, stream);
      const double milliseconds = gpu.time(stream, kRounds, [&] {
        for (const PackParameters& each : launches) {
          const core::Status launched = kernels.launch(each, stream);
          if (!launched.ok()) fail(launched.sentence());
        }
      });
      const double copy = gpu.time(stream, kRounds, [&] { gpu.copy(other, tensors, copied, stream); });
      const nlohmann::json line = {{"measured", "kernels"},
                                   {"batch", batch.name},
                                   {"codec", core::codec(codec).name},
                                   {"way", way == PackWay::kGather ? "pack" : "unpack"},
                                   {"tensors", batch.counts.size()},
                                   {"launches", launches.size()},
                                   {"microseconds", milliseconds * 1e3},
                                   {"copy_microseconds", copy * 1e3},
                                   {"gigabytes_per_second", static_cast<double>(moved) / milliseconds / 1e6},
                                   {"share_of_copy", copy / milliseconds}};
      std::printf("%s\n", line.dump().c_str());
      std::fflush(stdout);
    }
  }
}

}  // namespace

void measure_kernels(const std::string& file) {
  Gpu& gpu = Gpu::one();
  std::ifstream in(file, std::ios::binary);
  if (!file.empty() && !in) fail("cannot read " + file);
  static const std::string image((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  const auto kernels =
      cuda::Kernels::load(gpu.device(), file.empty() ? cuda::pack_image() : std::as_bytes(std::span(image)));
  if (!kernels.ok()) fail(kernels.status().sentence());
  const std::vector<Batch> batches = {{"ResNet-50", perf::resnet50_parameter_counts()},
                                      {"1,000 x 256 B", std::vector<size_t>(1000, 64)},
                                      {"8 x 4 MiB", std::vector<size_t>(8, size_t{1} << 20)}};
  constexpr size_t kRoom = size_t{192} << 20;
  std::byte* const tensors = gpu.allocate(kRoom);
  std::byte* const other = gpu.allocate(kRoom);
  std::byte* const buffer = gpu.allocate(static_cast<size_t>(cuda::FusionBuffer::kBytes));
  CUstream const stream = gpu.make_stream();
  for (const Batch& batch : batches) measure(batch, *kernels.value(), tensors, other, kRoom, buffer, stream);
}

}  // namespace rueda::gpu_speed
