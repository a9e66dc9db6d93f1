#pragma once
#include <cstddef>
#include <cstdint>

namespace rueda::core {

/// What the engine asks of a kind of memory that has streams. A plug-in fills in one row per kind. It is a C table
/// because it crosses the plug-in's boundary. A `token` is a mark in a stream (an event); token 0 has always been
/// passed.
///
///   caller's thread      lane thread                                   completing thread
///   at_enqueue(stream) ─▶ order_after(token, engine stream) ─▶ row ─▶ at_completion(stream) ─▶ poll(token) ─▶ complete
///
/// All functions may be called from any thread and never block. Those that return int32_t return 0 on success.
struct DeviceRow {
  size_t struct_size;
  const char* name;  ///< "cpu", "cuda"
  void* context;     ///< handed back
  int32_t kind;      ///< the value of rueda_tensor.device
  /// Marks the point in the caller's stream after which the input is ready.
  int32_t (*at_enqueue)(void* context, int32_t index, void* stream, uint64_t* token);
  /// Makes the engine's stream wait for the mark. If `engine_stream` is NULL the host itself is going to read, and the
  /// engine polls the token before the batch runs.
  int32_t (*order_after)(void* context, uint64_t token, void* engine_stream);
  /// Marks the point after which the output may be used and makes the caller's stream wait for it.
  int32_t (*at_completion)(void* context, int32_t index, void* stream, uint64_t* token);
  /// Returns 1 if the mark has been passed, 0 if not yet, and a negative number if the device failed.
  int32_t (*poll)(void* context, uint64_t token);
  void (*free_token)(void* context, uint64_t token);
  void* (*allocate)(void* context, int32_t index, size_t bytes, void* stream);
  void (*free)(void* context, int32_t index, void* memory);
};

/// The row of host memory: no streams, every mark is passed.
const DeviceRow& cpu_device();

}  // namespace rueda::core
