#pragma once
#include <cstddef>
#include <cstdint>

namespace rueda::core {

/// The streams that a device keeps for the engine. What goes to the host and what comes from it overlap.
enum class EngineStream : int32_t { kToHost = 0, kFromHost = 1 };

/// A part of the engine that asks to be told when a mark has been passed. Each has a queue of its own in the device, so
/// that one does not wait for what the other waits for.
enum class MarkAsker : int32_t { kLane = 0, kFinisher = 1 };

/// What the engine asks of a kind of memory that has streams. A plug-in fills in one struct per kind. It is a C table
/// because it crosses the plug-in's boundary. A `token` is a mark in a stream (an event); token 0 has always been
/// passed.
///
///   caller's thread      device lane                                               finisher          caller's thread
///   mark(stream) ──────▶ order_after(token, engine's stream) ─▶ copies ─▶ mark ──▶ notify, poll ──▶  done
///                                                                          └──────────────────────▶  order_after(mark,
///                                                                                                    its stream now)
///
/// A stream of the caller's is touched on the caller's thread alone: `mark` at enqueue, `order_after` in
/// rueda_wait_stream. The exceptions are memory that the library owns and memory from the caller's callback;
/// `shareable` says whether a stream may be used for those.
///
/// All functions may be called from any thread, on which they leave the library's current device as it was, and none
/// waits for the device, except that `allocate_pinned`, `free` and `free_pinned` may, and `mark_time` says how. Those
/// that return int32_t return 0 on success; after a failure `why` has its sentence.
struct DeviceFunctions {
  size_t struct_size;
  const char* name;  ///< "cpu", "cuda"
  void* context;     ///< handed back
  int32_t kind;      ///< the value of rueda_tensor.device
  /// Writes why the last function that failed on this thread did so: at most `capacity` bytes with the NUL.
  void (*why)(void* context, char* text, size_t capacity);
  /// Writes a line about the library and the devices of this machine. Makes no context. Fails, and `why` says what is
  /// missing, if no tensor can lie in such memory here.
  int32_t (*describe)(void* context, char* text, size_t capacity);

  /// Makes a mark at the present end of `stream`; 0 if the kind has no streams. Refuses a stream that records a graph.
  int32_t (*mark)(void* context, int32_t index, void* stream, uint64_t* token);
  /// Makes `stream` wait for the mark; the host does not wait.
  int32_t (*order_after)(void* context, int32_t index, uint64_t token, void* stream);
  /// Returns 1 if the mark has been passed, 0 if not yet, and a negative number if the device failed.
  int32_t (*poll)(void* context, uint64_t token);
  /// Calls `passed(argument)` on a thread of the library's when the mark has been passed; never, if the device fails.
  /// `passed` does not block and calls none of these functions.
  int32_t (*notify)(void* context, uint64_t token, MarkAsker asker, void (*passed)(void*), void* argument);
  void (*free_token)(void* context, uint64_t token);
  /// Returns 1 if other threads than the caller's may use the stream, 0 if its handle means another one there.
  int32_t (*shareable)(void* context, void* stream);

  /// The device's stream of this kind; null if it cannot be had.
  void* (*engine_stream)(void* context, int32_t index, EngineStream which);
  /// Copies between memory of the device and memory of `allocate_pinned`, in the order of `stream`.
  int32_t (*copy)(void* context, int32_t index, void* to, const void* from, size_t bytes, void* stream);
  /// Returns memory that may be used in the order of `stream`; null if there is none. `free` gives it back behind what
  /// is in `stream` at that call.
  void* (*allocate)(void* context, int32_t index, size_t bytes, void* stream);
  void (*free)(void* context, int32_t index, void* memory, void* stream);
  /// Memory of the host's that the device copies from and to by itself, on a page of its own; null if there is none.
  void* (*allocate_pinned)(void* context, int32_t index, size_t bytes);
  void (*free_pinned)(void* context, int32_t index, void* memory, size_t bytes);

  // For timelines. Null if the device tells no times.

  /// As `mark`, but of a mark whose time can be asked for. About once a second it waits for the device, in a stream
  /// that nothing else is in, for some microseconds.
  int32_t (*mark_time)(void* context, int32_t index, void* stream, uint64_t* token) = nullptr;
  /// Writes when the device passed a mark of `mark_time`, in nanoseconds of the host's steady clock. Fails if it has
  /// not.
  int32_t (*time_of)(void* context, uint64_t token, int64_t* nanoseconds) = nullptr;
};

}  // namespace rueda::core
