// Turns a call of rueda.h into an Operation: checks the options first, then that this rank is a member of the set, then
// the tensors (fill_tensors.cc). Everything that needs no other rank is refused here, on the caller's thread, so that a
// wrong call never reaches agreement. The mark on the caller's stream comes last: after it the call can no longer be
// refused.
#include "bindings/c/build_operation.h"

#include <fmt/format.h>

#include <cmath>

#include "bindings/c/check_call.h"
#include "bindings/c/copy_in.h"
#include "bindings/c/deadline_in.h"
#include "bindings/c/fill_tensors.h"
#include "bindings/c/wrong.h"
#include "runtime/base/spare_blocks.h"

namespace rueda::core {
namespace {

Status wrong_flag(const char* field, int32_t value) {
  return wrong(fmt::format("rueda_op_options.{} is {}; it must be 0 or 1", field, value));
}

Status check_options(const rueda_op_options& options) {
  if (options.codec < RUEDA_CODEC_DEFAULT || options.codec > RUEDA_CODEC_BF16) {
    return wrong(
        fmt::format("codec {} is unknown; RUEDA_CODEC_DEFAULT (0) to RUEDA_CODEC_BF16 (3) exist", options.codec));
  }
  if (options.average_over != RUEDA_OVER_MEMBERS && options.average_over != RUEDA_OVER_CONTRIBUTORS) {
    return wrong(fmt::format("average_over {} is unknown; RUEDA_OVER_MEMBERS (0) and RUEDA_OVER_CONTRIBUTORS (1) exist",
                             options.average_over));
  }
  if (options.has_scale != 0 && (!std::isfinite(options.prescale) || !std::isfinite(options.postscale))) {
    return wrong(fmt::format("prescale {} and postscale {} must be finite", options.prescale, options.postscale));
  }
  if (options.name_id != 0 && options.name != nullptr) {
    return wrong(
        fmt::format("name \"{}\" and name_id {} are both given; give one of the two", options.name, options.name_id));
  }
  if (!(options.timeout_seconds >= 0)) {
    return wrong(fmt::format("timeout_seconds is {}; it must be 0 or more, or infinity", options.timeout_seconds));
  }
  const auto is_flag = [](int32_t value) { return value == 0 || value == 1; };
  if (!is_flag(options.more)) return wrong_flag("more", options.more);
  if (!is_flag(options.drain)) return wrong_flag("drain", options.drain);
  return is_flag(options.same_rows) ? Status() : wrong_flag("same_rows", options.same_rows);
}

bool has_tensors(const OperationCall& call) {
  return call.kind != OpKind::kBarrier && call.kind != OpKind::kJoin && call.count > 0;
}

/// The device of the first tensor is the operation's; `fill_tensors` refuses a group on several devices.
OperationSpec spec_of(const OperationCall& call, const rueda_op_options& options, const DeviceTable& devices,
                      HandleCell& cell) {
  OperationSpec spec;
  spec.device = &cpu_device();
  if (has_tensors(call)) {
    rueda_tensor room{};
    Status unreadable;  // `fill_tensors` tells why
    const auto* const first = read_in(call.inputs != nullptr ? call.inputs : call.outputs, "input", room, unreadable);
    const DeviceFunctions* const device = first != nullptr ? devices.find(first->device) : nullptr;
    if (device != nullptr) {
      spec.device = device;
      spec.device_index = first->device_index;
    }
  }
  spec.stream = options.stream;
  spec.more = options.more != 0;
  if (options.timeout_seconds > 0) spec.timeout = timeout_of(options.timeout_seconds);
  const bool drained = options.drain != 0 && call.completions != nullptr;
  if (drained || options.callback != nullptr) cell = std::make_shared<std::atomic<rueda_handle>>(0);
  if (drained) {
    spec.announce = [queue = *call.completions, context = options.drain_context, cell](Code code) {
      queue->add({cell->load(), context, static_cast<int32_t>(code), 0});
    };
  }
  if (options.callback != nullptr) {
    spec.callback = [call = options.callback, context = options.callback_context, cell](Code code) {
      call(context, cell->load(), static_cast<int32_t>(code));
    };
  }
  if (options.allocate != nullptr) {
    spec.allocate = [call = options.allocate, context = options.allocate_context, stream = options.stream,
                     kind = spec.device->kind, index = spec.device_index](size_t bytes) -> void* {
      try {
        return call(context, bytes, kind, index, stream);
      } catch (...) {  // of a C++ caller: the operation fails as if there were no memory
        return nullptr;
      }
    };
  }
  return spec;
}

bool tensor_missing(const OperationCall& call, int rank) {
  if (call.kind == OpKind::kScatter && call.root != rank) return call.inputs == nullptr && call.outputs == nullptr;
  const bool needs_output =
      call.kind == OpKind::kAllreduce || call.kind == OpKind::kBroadcast || call.kind == OpKind::kSend;
  return call.inputs == nullptr || (needs_output && call.outputs == nullptr);
}

}  // namespace

Result<std::shared_ptr<Operation>> build_operation(std::shared_ptr<Engine> engine, const DeviceTable& devices,
                                                   const OperationCall& call, HandleCell& cell) {
  rueda_op_options room;
  Status why;
  const rueda_op_options* const given = read_in(call.options, "rueda_op_options", room, why);
  if (given == nullptr) return why;
  const rueda_op_options& options = *given;
  RUEDA_RETURN_IF_ERROR(check_options(options));
  RUEDA_RETURN_IF_ERROR(engine->process_sets().check_member(static_cast<SetId>(options.process_set)));
  RUEDA_RETURN_IF_ERROR(check_group_size(call.count));
  if (has_tensors(call) && tensor_missing(call, engine->plan().rank))
    return wrong(
        fmt::format("{}: {} is NULL", name_of(call.kind), call.inputs == nullptr ? "the input" : "the output"));
  auto operation =
      std::allocate_shared<Operation>(SpareBlockAllocator<Operation>(), Engine::operation_home(std::move(engine)),
                                      spec_of(call, options, devices, cell), call.count);
  RUEDA_RETURN_IF_ERROR(fill_tensors(*operation, *operation->engine(), devices, call, options));
  RUEDA_RETURN_IF_ERROR(operation->mark_inputs());
  return operation;
}

}  // namespace rueda::core
