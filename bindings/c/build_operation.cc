#include "bindings/c/build_operation.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>

#include "bindings/c/check_tensor.h"
#include "bindings/c/copy_in.h"
#include "runtime/base/reduction.h"

namespace rueda::core {
namespace {

constexpr size_t kMaxNameBytes = 1024;

Status wrong(std::string why) { return Status(Code::kInvalidArgument, std::move(why)); }

Status check_options(const rueda_op_options& options) {
  if (options.codec < RUEDA_CODEC_DEFAULT || options.codec > RUEDA_CODEC_BF16) {
    return wrong(
        fmt::format("codec {} is unknown; RUEDA_CODEC_DEFAULT (0) to RUEDA_CODEC_BF16 (3) exist", options.codec));
  }
  if (options.has_scale != 0 && (!std::isfinite(options.prescale) || !std::isfinite(options.postscale))) {
    return wrong(fmt::format("prescale {} and postscale {} must be finite", options.prescale, options.postscale));
  }
  return {};
}

Status check_op(int32_t op, Dtype dtype) {
  const bool known = op == RUEDA_AVERAGE || op == RUEDA_SUM || (op >= RUEDA_MIN && op <= RUEDA_BXOR);
  if (!known) {
    return wrong(fmt::format(
        "reduce op {} is unknown; average 0, sum 1, min 3, max 4, product 5, band 6, bor 7, bxor 8 exist", op));
  }
  std::string why = why_undefined(static_cast<ReduceOp>(op), dtype);
  return why.empty() ? Status() : wrong(std::move(why));
}

CodecId codec_of(const rueda_op_options& options, Dtype dtype, const Settings& settings) {
  if (dtype != Dtype::kF32 && dtype != Dtype::kF64) return CodecId::kNone;
  switch (options.codec) {
    case RUEDA_CODEC_NONE: return CodecId::kNone;
    case RUEDA_CODEC_FP16: return CodecId::kFp16;
    case RUEDA_CODEC_BF16: return CodecId::kBf16;
    default: return settings.compression;
  }
}

Result<std::string> member_name(const OperationCall& call, const rueda_op_options& options, size_t index) {
  std::string name;
  if (call.names != nullptr) {
    if (call.names[index] == nullptr) return wrong(fmt::format("names[{}] is NULL", index));
    name = call.names[index];
  } else if (options.name != nullptr) {
    name = call.group != 0 ? fmt::format("{}.{}", options.name, index) : options.name;
  }
  if (name.size() > kMaxNameBytes) {
    return wrong(fmt::format("the name \"{}...\" has {} bytes, the limit is {}", name.substr(0, 32), name.size(),
                             kMaxNameBytes));
  }
  return name;
}

/// The device of the first tensor is the operation's: `Builder` refuses a group on several.
OperationSpec spec_of(const OperationCall& call, const rueda_op_options& options, const DeviceTable& devices,
                      std::shared_ptr<std::atomic<rueda_handle>> handle) {
  OperationSpec spec;
  spec.device = &cpu_device();
  if (call.kind != OpKind::kBarrier && call.count > 0) {
    const Result<rueda_tensor> first = copy_in(&call.inputs[0], "input");
    const DeviceRow* device = first.ok() ? devices.find(first.value().device) : nullptr;
    if (device != nullptr) {
      spec.device = device;
      spec.device_index = first.value().device_index;
    }
  }
  spec.stream = options.stream;
  if (options.callback != nullptr) {
    spec.callback = [call = options.callback, context = options.callback_context, handle](Code code) {
      call(context, handle->load(), static_cast<int32_t>(code));
    };
  }
  if (options.allocate != nullptr) {
    spec.allocate = [call = options.allocate, context = options.allocate_context, stream = options.stream,
                     kind = spec.device->kind,
                     index = spec.device_index](size_t bytes) { return call(context, bytes, kind, index, stream); };
  }
  return spec;
}

Status place_output(Operation& operation, size_t index, const CheckedTensor& output) {
  Member& member = operation.members()[index];
  member.slice.out = static_cast<std::byte*>(output.tensor.data);
  if (member.slice.out != nullptr || output.count == 0 || operation.spec().allocate != nullptr) return {};
  const DeviceRow& device = *operation.spec().device;
  auto* memory = static_cast<std::byte*>(
      device.allocate(device.context, operation.spec().device_index, output.bytes, operation.spec().stream));
  if (memory == nullptr) return Status(Code::kSystem, fmt::format("no memory for an output of {} bytes", output.bytes));
  operation.own_output(index, memory, Ownership::kLibrary);
  return {};
}

class Builder {
 public:
  Builder(const Engine& engine, const DeviceTable& devices, const OperationCall& call, const rueda_op_options& options)
      : engine_(engine), devices_(devices), call_(call), options_(options) {}

  Status fill(Operation& operation) {
    for (size_t i = 0; i < call_.count; ++i) RUEDA_RETURN_IF_ERROR(fill_member(operation, i));
    for (Member& member : operation.members()) member.request.group = call_.group;
    return {};
  }

 private:
  Status fill_member(Operation& operation, size_t index) {
    Member& member = operation.members()[index];
    Result<std::string> name = member_name(call_, options_, index);
    if (!name.ok()) return name.status();
    member.request.name = std::move(name).value();
    member.request.set = static_cast<SetId>(options_.process_set);
    Metadata& metadata = member.request.metadata;
    metadata.kind = call_.kind;
    if (call_.kind == OpKind::kBarrier) return {};
    const Result<CheckedTensor> input =
        check_tensor(element_of(call_.inputs, index), "input", Place::kRequired, devices_);
    if (!input.ok()) return input.status();
    const Result<CheckedTensor> output =
        check_tensor(element_of(call_.outputs, index), "output", Place::kOptional, devices_);
    if (!output.ok()) return output.status();
    RUEDA_RETURN_IF_ERROR(check_pair(input.value(), output.value()));
    const rueda_tensor& tensor = input.value().tensor;
    const OperationSpec& spec = operation.spec();
    if (tensor.device != spec.device->kind || tensor.device_index != spec.device_index) {
      return wrong(fmt::format("tensor {} of the group lies on device {} number {}, the first on device {} number {}",
                               index, tensor.device, tensor.device_index, spec.device->kind, spec.device_index));
    }
    metadata.device = tensor.device == RUEDA_DEVICE_CPU ? -1 : tensor.device;
    metadata.dtype = static_cast<Dtype>(tensor.dtype);
    metadata.shape = input.value().agreed_shape();
    RUEDA_RETURN_IF_ERROR(fill_kind(metadata));
    member.slice.in = static_cast<const std::byte*>(tensor.data);
    member.slice.count = input.value().count;
    return place_output(operation, index, output.value());
  }

  Status fill_kind(Metadata& metadata) const {
    if (call_.kind == OpKind::kBroadcast) {
      const int size = engine_.plan().size;
      if (call_.root < 0 || call_.root >= size) {
        return wrong(fmt::format("broadcast root {} is no rank of this job: 0 to {} are", call_.root, size - 1));
      }
      if (!engine_.process_sets().contains(static_cast<SetId>(options_.process_set), call_.root)) {
        return wrong(fmt::format("broadcast root {} is no member of process set {}", call_.root, options_.process_set));
      }
      metadata.root = call_.root;
      return {};
    }
    RUEDA_RETURN_IF_ERROR(check_op(call_.op, metadata.dtype));
    metadata.op = static_cast<ReduceOp>(call_.op);
    metadata.codec = codec_of(options_, metadata.dtype, engine_.plan().settings);
    if (options_.has_scale != 0) {
      metadata.prescale = options_.prescale;
      metadata.postscale = options_.postscale;
    }
    return {};
  }

  const Engine& engine_;
  const DeviceTable& devices_;
  const OperationCall& call_;
  const rueda_op_options& options_;
};

}  // namespace

Result<std::shared_ptr<Operation>> build_operation(const std::shared_ptr<Engine>& engine, const DeviceTable& devices,
                                                   const OperationCall& call,
                                                   std::shared_ptr<std::atomic<rueda_handle>> handle) {
  const Result<rueda_op_options> options = copy_in(call.options, "rueda_op_options");
  if (!options.ok()) return options.status();
  RUEDA_RETURN_IF_ERROR(check_options(options.value()));
  RUEDA_RETURN_IF_ERROR(engine->process_sets().check_member(static_cast<SetId>(options.value().process_set)));
  const bool tensors = call.kind != OpKind::kBarrier && call.count > 0;
  if (tensors && (call.inputs == nullptr || call.outputs == nullptr)) return wrong("a tensor argument is NULL");
  auto operation =
      std::make_shared<Operation>(engine, spec_of(call, options.value(), devices, std::move(handle)), call.count);
  RUEDA_RETURN_IF_ERROR(Builder(*engine, devices, call, options.value()).fill(*operation));
  RUEDA_RETURN_IF_ERROR(operation->mark_inputs());
  return operation;
}

}  // namespace rueda::core
