#include "runtime/engine/late_output.h"

#include <fmt/format.h>

namespace rueda::core {

bool needs_output(const Member& member) {
  return member.slice.out == nullptr && member.slice.count > 0 && member.operation->spec().allocate != nullptr;
}

LateOutputs::LateOutputs(Batch& batch) {
  for (size_t i = 0; i < batch.members.size(); ++i) {
    Member& member = *batch.members[i];
    if (!needs_output(member)) continue;
    const size_t bytes = static_cast<size_t>(member.slice.count) * size_of(member.request.metadata.dtype);
    auto* memory = static_cast<std::byte*>(member.operation->spec().allocate(bytes));
    if (memory != nullptr) {
      member.operation->own_output(static_cast<size_t>(&member - member.operation->members().data()), memory, Ownership::kCaller);
    } else {
      member.failure = Status(Code::kSystem, fmt::format("the allocation callback gave no {} bytes for the output of \"{}\"",
                                                         bytes, member.request.name));
      sinks_.push_back(std::make_unique<std::byte[]>(bytes));
      memory = sinks_.back().get();
    }
    batch.storage[i].out = memory;
  }
}

}  // namespace rueda::core
