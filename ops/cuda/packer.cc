// Fills in the parameters of a launch. What was gathered is scattered with the same table.
#include "ops/cuda/packer.h"

namespace rueda::cuda {

void Packer::set_task(PackWay way, std::byte* memory, uint32_t tiles, uint32_t lanes) {
  const bool gathers = way == PackWay::kGather;
  PackTask& task = parameters_.task;
  const PackTask put = task;
  task = {.way = way,
          .wire = plan_.wire,
          .dtype = plan_.part,
          .element_bytes = static_cast<uint32_t>(core::size_of(plan_.part)),
          .pieces = put.pieces,
          .tiles = tiles,
          .lanes = lanes,
          .unused = 0,
          .divisor = gathers ? 1 : plan_.divisor,
          .factor = gathers ? plan_.before : plan_.after,
          .neutral = plan_.neutral,
          .table = put.table,
          .buffer = memory};
}

Status Packer::gather(std::span<const PackPiece> pieces, uint32_t tiles) {
  RUEDA_RETURN_IF_ERROR(buffer_.put(pieces, parameters_, host_));
  set_task(PackWay::kGather, buffer_.memory(), tiles, lanes_for(pieces.data(), pieces.size(), tiles));
  return kernels_.launch(parameters_, stream_);
}

Status Packer::scatter() {
  set_task(PackWay::kScatter, buffer_.memory(), parameters_.task.tiles, parameters_.task.lanes);
  return kernels_.launch(parameters_, stream_);
}

Status Packer::finish(std::span<const PackPiece> pieces, uint32_t tiles) {
  RUEDA_RETURN_IF_ERROR(buffer_.put(pieces, parameters_, host_));
  set_task(PackWay::kScatter, nullptr, tiles, lanes_for(pieces.data(), pieces.size(), tiles));
  return kernels_.launch(parameters_, stream_);
}

}  // namespace rueda::cuda
