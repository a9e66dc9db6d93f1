// The functions of rueda.h that take a handle.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "bindings/c/deadline_in.h"
#include "bindings/c/handle_table.h"
#include "bindings/c/last_error.h"
#include "runtime/engine/completer.h"
#include "runtime/engine/engine.h"

namespace rueda::core {
namespace {

Status wrong_handle(rueda_handle handle, const std::string& why) {
  return {Code::kInvalidArgument, fmt::format("handle {} {}", handle, why)};
}

Result<std::shared_ptr<Operation>> find(rueda_handle handle) {
  std::shared_ptr<Operation> operation = handles().find(handle);
  if (operation != nullptr) return operation;
  return wrong_handle(handle, "does not exist in this process: it was never returned, or was released");
}

/// Only if its outputs are there, or will be for a stream that waits.
Result<std::shared_ptr<Operation>> find_launched(rueda_handle handle) {
  Result<std::shared_ptr<Operation>> operation = find(handle);
  if (!operation.ok() || operation.value()->reached(Stage::kLaunched)) return operation;
  return wrong_handle(handle, "belongs to an operation in flight; wait for it");
}

Deadline deadline_of(double seconds) { return seconds >= 0 ? deadline_in(seconds) : Deadline::never(); }

template <typename Wait>
int32_t waiting(rueda_handle handle, double seconds, Wait&& wait) {
  return guarded([&]() -> Status {
    if (std::isnan(seconds)) return Status(Code::kInvalidArgument, "timeout_seconds is not a number");
    if (Completer::in_callback()) return wrong_handle(handle, "may not be waited for, or abandoned, inside a callback");
    const Result<std::shared_ptr<Operation>> operation = find(handle);
    return operation.ok() ? wait(operation.value(), deadline_of(seconds)) : operation.status();
  });
}

/// Returns the operation of this kind if it is launched; the caller writes a rank of it to `*rank`.
Result<std::shared_ptr<Operation>> find_launched(rueda_handle handle, OpKind kind, const char* what,
                                                 const int32_t* rank) {
  Result<std::shared_ptr<Operation>> operation = find(handle);
  if (!operation.ok()) return operation.status();
  if (rank == nullptr) return Status(Code::kInvalidArgument, "rank is NULL");
  if (operation.value()->kind() != kind) return wrong_handle(handle, fmt::format("does not belong to a {}", what));
  return find_launched(handle);
}

Status received_splits(const Operation& operation, int64_t* splits, size_t capacity, size_t* count) {
  if (count == nullptr) return Status(Code::kInvalidArgument, "count is NULL");
  if (operation.done()) RUEDA_RETURN_IF_ERROR(operation.status());
  *count = 0;
  for (const TensorPart& tensor : operation.tensors()) *count += tensor.received.size();
  if (*count > capacity) return {};
  if (*count > 0 && splits == nullptr) return Status(Code::kInvalidArgument, "splits is NULL");
  for (const TensorPart& tensor : operation.tensors()) {
    splits = std::copy(tensor.received.begin(), tensor.received.end(), splits);
  }
  return {};
}

}  // namespace
}  // namespace rueda::core

namespace core = rueda::core;
using Operation = std::shared_ptr<core::Operation>;

int32_t rueda_wait(rueda_handle handle, double timeout_seconds) {
  return core::waiting(handle, timeout_seconds, [](const Operation& operation, core::Deadline deadline) {
    return operation->engine()->wait(*operation, deadline);
  });
}

int32_t rueda_wait_stream(rueda_handle handle, void* stream, double timeout_seconds) {
  return core::waiting(handle, timeout_seconds, [stream](const Operation& operation, core::Deadline deadline) {
    return operation->engine()->wait_stream(*operation, stream, deadline);
  });
}

int32_t rueda_abandon(rueda_handle handle, double timeout_seconds) {
  return core::waiting(handle, timeout_seconds, [](const Operation& operation, core::Deadline deadline) {
    return operation->engine()->abandon(operation, deadline);
  });
}

int32_t rueda_source(rueda_handle handle, int32_t* rank) {
  return core::guarded([&]() -> core::Status {
    const auto operation = core::find_launched(handle, core::OpKind::kSend, "message", rank);
    if (!operation.ok()) return operation.status();
    const int known = operation.value()->tensors().front().request.metadata.root;
    *rank = known >= 0 ? known : operation.value()->source;
    return *rank >= 0 ? core::Status()
                      : core::wrong_handle(handle, "belongs to a receive that failed before a message came");
  });
}

int32_t rueda_last_joined(rueda_handle handle, int32_t* rank) {
  return core::guarded([&]() -> core::Status {
    const auto operation = core::find_launched(handle, core::OpKind::kJoin, "join", rank);
    if (!operation.ok()) return operation.status();
    if (operation.value()->last_joined < 0) return core::wrong_handle(handle, "belongs to a join that failed");
    *rank = operation.value()->last_joined;
    return {};
  });
}

int32_t rueda_poll(rueda_handle handle) {
  int32_t answer = -1;
  core::guarded([&]() -> core::Status {
    const auto operation = core::find(handle);
    if (!operation.ok()) return operation.status();
    operation.value()->engine()->look();
    answer = operation.value()->done() ? 1 : 0;
    return {};
  });
  return answer;
}

int32_t rueda_release(rueda_handle handle) {
  return core::guarded([&]() -> core::Status {
    const auto operation = core::handles().remove(handle);
    if (operation != nullptr && operation->done()) operation->free_outputs();
    if (operation != nullptr) return {};
    return core::find(handle).status();
  });
}

const char* rueda_handle_error(rueda_handle handle) {
  const char* sentence = "";
  core::guarded([&]() -> core::Status {
    const auto operation = core::find(handle);
    if (operation.ok() && operation.value()->done()) sentence = operation.value()->status().sentence().c_str();
    return operation.status();
  });
  return sentence;
}

int32_t rueda_output(rueda_handle handle, size_t index, rueda_tensor* output) {
  return core::guarded([&]() -> core::Status {
    const auto found = core::find_launched(handle);
    if (!found.ok()) return found.status();
    const core::Operation& operation = *found.value();
    if (output == nullptr) return core::Status(core::Code::kInvalidArgument, "output is NULL");
    size_t given = 0;
    std::memcpy(&given, output, sizeof given);
    if (given < sizeof given) return core::Status(core::Code::kInvalidArgument, "output->struct_size is not set");
    if (operation.done() && !operation.status().ok()) return operation.status();
    if (index >= operation.tensors().size()) {
      return core::wrong_handle(
          handle, fmt::format("has no output {}; it has {}, counted from 0", index, operation.tensors().size()));
    }
    const core::TensorPart& part = operation.tensors()[index];
    const core::Metadata& metadata = part.request.metadata;
    rueda_tensor tensor{};
    tensor.struct_size = std::min(given, sizeof tensor);
    tensor.data = part.slice.out;
    tensor.dtype = static_cast<int32_t>(metadata.dtype);
    tensor.dimensions = static_cast<int32_t>(part.output_shape().size());
    tensor.shape = part.output_shape().data();
    tensor.order = part.order.empty() ? nullptr : part.order.data();
    tensor.device = operation.spec().device->kind;
    tensor.device_index = operation.spec().device_index;
    if (metadata.dtype == core::Dtype::kOpaque) tensor.element_bytes = metadata.element_bytes();
    std::memcpy(output, &tensor, std::min(given, sizeof tensor));
    return {};
  });
}

int32_t rueda_received_splits(rueda_handle handle, int64_t* splits, size_t capacity, size_t* count) {
  return core::guarded([&]() -> core::Status {
    const auto operation = core::find_launched(handle);
    return operation.ok() ? core::received_splits(*operation.value(), splits, capacity, count) : operation.status();
  });
}
