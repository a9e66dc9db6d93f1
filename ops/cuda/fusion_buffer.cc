// The memory that batches are packed in.
//
//   host      table 0 | table 1 | ...      the next batch's pieces are written while the GPU copies the last one's
//               │ copy in the stream
//   GPU       table ─▶ kernels ◀─▶ buffer  one of each: the stream runs batch after batch
//
// Nothing is allocated or freed between the first batch and the end.
#include "ops/cuda/fusion_buffer.h"

#include <fmt/format.h>

#include <algorithm>

namespace rueda::cuda {

using core::Result;
using core::Status;

void FusionBuffer::allocate() {
  memory_ = nccl_.allocate(kDeviceBytes);
  by_nccl_ = memory_ != nullptr;
  if (by_nccl_) return;
  memory_ = static_cast<std::byte*>(functions_->allocate(functions_->context, index_, kDeviceBytes, stream_));
}

Status FusionBuffer::make(const core::DeviceFunctions& functions, int32_t index, void* stream, const NcclMemory& nccl) {
  if (memory_ != nullptr) return {};
  nccl_ = nccl;
  functions_ = &functions;
  index_ = index;
  stream_ = stream;
  auto* const tables =
      static_cast<PackPiece*>(functions.allocate_pinned(functions.context, index, kTables * kTableBytes));
  if (tables == nullptr) {
    return core::device_error(functions, index, fmt::format("give {} bytes of pinned memory", kTables * kTableBytes));
  }
  for (size_t i = 0; i < kTables; ++i) tables_[i].pieces = tables + i * kMostPieces;
  allocate();
  if (memory_ != nullptr) {
    host_.account(static_cast<int64_t>(kDeviceBytes));
    return {};
  }
  Status failure =
      core::device_error(functions, index, fmt::format("give {} bytes to pack small tensors in", kDeviceBytes));
  free();
  return failure;
}

Status FusionBuffer::await(const PinnedTable& table, core::EngineCall& host) {
  if (table.copied == nullptr) return {};
  Status failure;
  RUEDA_RETURN_IF_ERROR(host.until([&] {
    const Result<bool> passed = table.copied->passed();
    failure = passed.status();
    return !passed.ok() || passed.value();
  }));
  return failure;
}

Status FusionBuffer::put(std::span<const PackPiece> pieces, PackParameters& parameters, core::EngineCall& host) {
  parameters.task.pieces = static_cast<uint32_t>(pieces.size());
  parameters.task.table = nullptr;
  if (pieces.size() <= kHeldPieces) {
    std::copy(pieces.begin(), pieces.end(), parameters.held);
    return {};
  }
  PinnedTable& table = tables_[next_++ % kTables];
  RUEDA_RETURN_IF_ERROR(await(table, host));
  std::copy(pieces.begin(), pieces.end(), table.pieces);
  std::byte* const on_gpu = memory_ + kBytes;
  if (functions_->copy(functions_->context, index_, on_gpu, table.pieces, pieces.size_bytes(), stream_) != 0) {
    return core::device_error(*functions_, index_, "copy the table of a batch's tensors");
  }
  auto mark = core::make_mark(*functions_, index_, stream_);
  if (!mark.ok()) return mark.status();
  table.copied = std::move(mark).value();
  parameters.task.table = reinterpret_cast<const PackPiece*>(on_gpu);
  return {};
}

void FusionBuffer::free() {
  if (tables_.front().pieces != nullptr) {
    functions_->free_pinned(functions_->context, index_, tables_.front().pieces, kTables * kTableBytes);
  }
  if (memory_ != nullptr) {
    by_nccl_ ? nccl_.free(memory_) : functions_->free(functions_->context, index_, memory_, stream_);
    host_.account(-static_cast<int64_t>(kDeviceBytes));
  }
  leave();
}

void FusionBuffer::leave() {
  memory_ = nullptr;
  tables_ = {};
}

}  // namespace rueda::cuda
