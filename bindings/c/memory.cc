// The functions of rueda.h about memory for tensors.
#include <algorithm>
#include <cstring>

#include "bindings/c/last_error.h"
#include "bindings/c/session.h"
#include "runtime/net/tensor_memory.h"

namespace core = rueda::core;

int32_t rueda_memory_allocate(rueda_session* session, size_t bytes, rueda_memory* memory) {
  return core::guarded([&]() -> core::Status {
    if (memory == nullptr) return core::Status(core::Code::kInvalidArgument, "memory is NULL");
    size_t given = 0;
    std::memcpy(&given, memory, sizeof given);
    if (given < sizeof given) return core::Status(core::Code::kInvalidArgument, "memory->struct_size is not set");
    const auto engine = core::engine_of(session);
    if (!engine.ok()) return engine.status();
    const auto taken = core::allocate_tensor_memory(engine.value()->tensor_arena(), bytes);
    if (!taken.ok()) return taken.status();
    rueda_memory filled{};
    filled.struct_size = std::min(given, sizeof filled);
    filled.data = taken.value().data;
    filled.bytes = taken.value().bytes;
    filled.shared = taken.value().shared ? 1 : 0;
    std::memcpy(memory, &filled, filled.struct_size);
    return {};
  });
}

int32_t rueda_memory_free(void* data) {
  return core::guarded([&] { return core::free_tensor_memory(data); });
}
