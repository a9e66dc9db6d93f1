// Fills the tensors of an operation from a call: name, metadata that ranks agree on, and the memory of inputs and
// outputs. The input comes first, because the output is checked against it. An output without memory of the caller's
// gets the library's at once if its size is known, and at its arrival if not (exchanges).
#include "bindings/c/fill_tensors.h"

#include <fmt/format.h>

#include <algorithm>

#include "bindings/c/check_call.h"
#include "bindings/c/check_tensor.h"
#include "bindings/c/copy_in.h"
#include "bindings/c/fill_exchange.h"
#include "bindings/c/wrong.h"
#include "ops/owner_parts.h"
#include "runtime/base/reduction.h"

namespace rueda::core {
namespace {

Status check_op(int32_t op, Dtype dtype) {
  const bool known = op >= RUEDA_AVERAGE && op <= RUEDA_BXOR;
  if (!known) {
    return wrong(fmt::format(
        "reduce op {} is unknown; average 0, sum 1, adasum 2, min 3, max 4, product 5, band 6, bor 7, bxor 8 exist",
        op));
  }
  if (is_defined(static_cast<ReduceOp>(op), dtype)) return {};
  return wrong(why_undefined(static_cast<ReduceOp>(op), dtype));
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

/// The text of `options.name_id`; empty if that is 0.
Result<std::string_view> interned_name(const Engine& engine, const rueda_op_options& options) {
  if (options.name_id == 0) return std::string_view();
  const std::string_view text = engine.interned(options.name_id);
  if (!text.empty()) return text;
  return wrong(fmt::format("name_id {} does not come from rueda_intern of this session", options.name_id));
}

/// Sets the name of a tensor: that of the group's list; else `given`, in a group with the tensor's index behind it;
/// else none. `given` may be null.
Status set_name(const OperationCall& call, const char* given, size_t index, TensorName& name) {
  if (call.names != nullptr) {
    if (call.names[index] == nullptr) return wrong(fmt::format("names[{}] is NULL", index));
    name = call.names[index];
  } else if (given != nullptr && call.group != 0) {
    name = fmt::format("{}.{}", given, index);
  } else if (given != nullptr) {
    name = given;
  }
  return check_name(name);
}

/// Gives an output of known size memory of the library's if neither the caller nor its `allocate` provides it.
Status place_output(Operation& operation, size_t index, size_t bytes) {
  const TensorPart& tensor = operation.tensors()[index];
  if (tensor.slice.out != nullptr || bytes == 0 || operation.spec().allocate != nullptr) return {};
  const DeviceFunctions& device = *operation.spec().device;
  operation.expect_outputs();
  auto* memory = static_cast<std::byte*>(
      device.allocate(device.context, operation.spec().device_index, bytes, operation.spec().stream));
  if (memory == nullptr) {
    return device_error(device, operation.spec().device_index, fmt::format("give {} bytes for an output", bytes));
  }
  operation.own_output(index, memory, bytes, Ownership::kLibrary);
  return {};
}

/// Returns true if the output is the input itself, which has been checked. Returns false if it is another tensor or a
/// wrong one.
bool is_input(const rueda_tensor* output, const rueda_tensor& input) {
  if (output == nullptr || output->struct_size != sizeof(rueda_tensor) || output->data != input.data ||
      output->dtype != input.dtype || output->dimensions != input.dimensions || output->device != input.device ||
      output->device_index != input.device_index || output->element_bytes != input.element_bytes ||
      output->order != input.order)
    return false;
  const auto count = static_cast<size_t>(input.dimensions);
  return count == 0 || (output->shape != nullptr && std::equal(input.shape, input.shape + count, output->shape));
}

/// `build_operation` has checked that this rank is a member.
SetPlace place_in_set(const Engine& engine, SetId set) {
  if (set == kGlobalSet) return {engine.plan().size, engine.plan().rank, engine.plan().rank};
  const Result<std::vector<int>> ranks = engine.process_sets().ranks(set);
  if (!ranks.ok()) return {1, 0, engine.plan().rank};
  const auto own = std::find(ranks.value().begin(), ranks.value().end(), engine.plan().rank);
  return {static_cast<int>(ranks.value().size()), static_cast<int>(own - ranks.value().begin()), engine.plan().rank};
}

/// Fills one tensor after the other.
class TensorFiller {
 public:
  TensorFiller(Operation& operation, const Engine& engine, const DeviceTable& devices, const OperationCall& call,
               const rueda_op_options& options)
      : operation_(operation),
        engine_(engine),
        devices_(devices),
        call_(call),
        options_(options),
        set_(place_in_set(engine, static_cast<SetId>(options.process_set))) {}

  Status fill(size_t index) {
    TensorPart& tensor = operation_.tensors()[index];
    tensor.request.set = static_cast<SetId>(options_.process_set);
    tensor.request.metadata.kind = call_.kind;
    if (call_.kind == OpKind::kJoin) return {};
    RUEDA_RETURN_IF_ERROR(fill_name(tensor.request, index));
    tensor.request.group = call_.group;
    if (call_.kind == OpKind::kBarrier) return {};
    RUEDA_RETURN_IF_ERROR(fill_data(tensor, index));
    note_memory(tensor);
    return {};
  }

 private:
  const EpochPlan& plan() const { return engine_.plan(); }

  Status fill_name(Request& request, size_t index) const {
    const Result<std::string_view> interned = interned_name(engine_, options_);
    if (!interned.ok()) return interned.status();
    if (call_.group == 0 && !interned.value().empty()) {
      request.name = interned.value();
      request.number = static_cast<uint32_t>(options_.name_id);
      return {};
    }
    return set_name(call_, interned.value().empty() ? options_.name : interned.value().data(), index, request.name);
  }

  Status fill_data(TensorPart& tensor, size_t index) {
    const bool from_root = call_.kind == OpKind::kScatter || call_.kind == OpKind::kSend;
    const bool sends = !from_root || call_.root == plan().rank;
    const rueda_tensor* const like = element_of(call_.inputs != nullptr ? call_.inputs : call_.outputs, index);
    CheckedTensor input;
    RUEDA_RETURN_IF_ERROR(check_tensor(like, "input", sends ? Place::kRequired : Place::kOptional, devices_, input));
    RUEDA_RETURN_IF_ERROR(fill_input(tensor, input, index));
    RUEDA_RETURN_IF_ERROR(fill_kind(tensor.request.metadata));
    CheckedTensor output;
    const CheckedTensor* given = nullptr;
    const bool only_root_receives = call_.kind == OpKind::kReduce || call_.kind == OpKind::kGather;
    if (call_.outputs != nullptr && (!only_root_receives || call_.root == plan().rank)) {
      if (is_input(element_of(call_.outputs, index), input.tensor)) {
        given = &input;
      } else {
        RUEDA_RETURN_IF_ERROR(
            check_tensor(element_of(call_.outputs, index), "output", Place::kOptional, devices_, output));
        RUEDA_RETURN_IF_ERROR(check_order(output));
        given = &output;
      }
    }
    if (!exchanges(call_.kind)) return fill_result(tensor, index, input, given);
    const bool same = call_.kind == OpKind::kAllgather && options_.same_rows != 0;
    const RowsOf rows = same ? RowsOf::kSame : RowsOf::kAny;
    if (sends) return fill_exchange(tensor, call_, set_, index, input, given, rows);
    CheckedTensor nothing = input;  // this rank sends no rows; only dtype and row shape counted
    nothing.bytes = 0;
    return fill_exchange(tensor, call_, set_, index, nothing, given, rows);
  }

  Status check_order(const CheckedTensor& tensor) const {
    if (tensor.order.empty() || keeps_positions(call_.kind)) return {};
    return wrong(
        fmt::format("{}: its tensors must be row-major; `order` applies to other operations", name_of(call_.kind)));
  }

  Status fill_input(TensorPart& part, const CheckedTensor& input, size_t index) const {
    const rueda_tensor& tensor = input.tensor;
    const OperationSpec& spec = operation_.spec();
    if (tensor.device != spec.device->kind || tensor.device_index != spec.device_index) {
      return wrong(fmt::format("tensor {} of the group is on device {} number {}; the first is on device {} number {}",
                               index, tensor.device, tensor.device_index, spec.device->kind, spec.device_index));
    }
    Metadata& metadata = part.request.metadata;
    metadata.device = tensor.device == RUEDA_DEVICE_CPU ? -1 : tensor.device;
    metadata.dtype = static_cast<Dtype>(tensor.dtype);
    metadata.shape = input.agreed_shape();
    RUEDA_RETURN_IF_ERROR(check_order(input));
    metadata.order = input.order;
    part.order.assign(input.order.begin(), input.order.end());
    part.slice.in = static_cast<const std::byte*>(tensor.data);
    part.slice.count = input.count;
    return {};
  }

  Status fill_kind(Metadata& metadata) const {
    if (has_root(call_.kind) && !receives_from_any(call_)) {
      if (call_.root < 0 || call_.root >= plan().size) {
        return wrong(fmt::format("{} root {} is not a rank of this job; its ranks are 0 to {}", name_of(call_.kind),
                                 call_.root, plan().size - 1));
      }
      if (!engine_.process_sets().contains(static_cast<SetId>(options_.process_set), call_.root)) {
        return wrong(fmt::format("{} root {} is not a member of process set {}", name_of(call_.kind), call_.root,
                                 options_.process_set));
      }
      metadata.root = call_.root;
    }
    if (!reduces(call_.kind)) return {};
    RUEDA_RETURN_IF_ERROR(check_op(call_.op, metadata.dtype));
    if (call_.op == RUEDA_ADASUM && call_.kind != OpKind::kAllreduce) {
      return wrong(fmt::format("{}: only an all-reduce can use adasum", name_of(call_.kind)));
    }
    metadata.op = static_cast<ReduceOp>(call_.op);
    const bool fewer = options_.average_over == RUEDA_OVER_CONTRIBUTORS && metadata.op == ReduceOp::kAverage;
    metadata.over = fewer ? AverageOver::kContributors : AverageOver::kMembers;
    if (call_.op != RUEDA_ADASUM) metadata.codec = codec_of(options_, metadata.dtype, plan().settings);
    if (options_.has_scale != 0) {
      metadata.prescale = options_.prescale;
      metadata.postscale = options_.postscale;
    }
    return {};
  }

  Status fill_result(TensorPart& tensor, size_t index, const CheckedTensor& input, const CheckedTensor* output) {
    if (call_.kind == OpKind::kReducescatter) RUEDA_RETURN_IF_ERROR(deal_rows(tensor));
    if (call_.kind == OpKind::kReduce && call_.root != plan().rank) {
      tensor.output = std::make_unique<OutputShape>(OutputShape{{0}, 0});
      return {};
    }
    if (output != nullptr) {
      RUEDA_RETURN_IF_ERROR(check_output(input, *output, tensor.output_shape()));
      RUEDA_RETURN_IF_ERROR(check_overlap(input, *output, place_in_input(tensor)));
      tensor.slice.out = static_cast<std::byte*>(output->tensor.data);
    }
    const size_t element = size_of(tensor.request.metadata.dtype);
    RUEDA_RETURN_IF_ERROR(place_output(operation_, index, static_cast<size_t>(tensor.output_count()) * element));
    if (tensor.slice.in == nullptr) tensor.slice.in = tensor.slice.out;  // a receiver has no input of its own
    return {};
  }

  /// Says whether other ranks may use the tensor where it lies: what they read of it, and in an all-reduce also what
  /// they write. The arena first, since most tensors are not there.
  void note_memory(TensorPart& tensor) const {
    Metadata& metadata = tensor.request.metadata;
    const TensorArena* const arena = engine_.tensor_arena().get();
    if (arena == nullptr || metadata.device >= 0 || call_.kind == OpKind::kSend) return;
    const bool from_root = call_.kind == OpKind::kBroadcast || call_.kind == OpKind::kScatter;
    const bool is_read = !from_root || call_.root == plan().rank;
    const size_t bytes = static_cast<size_t>(tensor.slice.count) * size_of(metadata.dtype);
    // Of an exchange one rank may have no rows where others have some; an empty tensor of another kind is so
    // everywhere.
    if (bytes == 0 && !exchanges(call_.kind)) return;
    if (is_read && bytes != 0 && !arena->contains(tensor.slice.in, bytes)) return;
    if (call_.kind == OpKind::kAllreduce && !arena->contains(tensor.slice.out, bytes)) return;
    if (engine_.can_share(static_cast<SetId>(options_.process_set))) metadata.memory = MemoryKind::kShared;
  }

  /// Sets the shape of a reduce-scatter's result: the rows of this rank.
  Status deal_rows(TensorPart& tensor) const {
    Extents shape = tensor.request.metadata.shape;
    if (shape.empty()) return wrong("input: a reducescatter deals out dimension 0; the tensor has no dimensions");
    if (tensor.slice.count > 0) tensor.slice.row = tensor.slice.count / shape[0];
    const ElementRange own = rows_of(shape[0], 1, set_.size, set_.place);
    shape[0] = own.length();
    const int64_t count = tensor.slice.count > 0 ? own.length() * tensor.slice.row : 0;
    tensor.output = std::make_unique<OutputShape>(OutputShape{shape, count});
    return {};
  }

  /// The address in the input at which the result may lie.
  const std::byte* place_in_input(const TensorPart& tensor) const {
    if (call_.kind != OpKind::kReducescatter || tensor.slice.count == 0) return tensor.slice.in;
    const ElementRange own = rows_of(tensor.slice.count, tensor.slice.row, set_.size, set_.place);
    return tensor.slice.in + static_cast<size_t>(own.begin) * size_of(tensor.request.metadata.dtype);
  }

  Operation& operation_;
  const Engine& engine_;
  const DeviceTable& devices_;
  const OperationCall& call_;
  const rueda_op_options& options_;
  const SetPlace set_;
};

}  // namespace

Status fill_tensors(Operation& operation, const Engine& engine, const DeviceTable& devices, const OperationCall& call,
                    const rueda_op_options& options) {
  TensorFiller filler(operation, engine, devices, call, options);
  for (size_t index = 0; index < call.count; ++index) RUEDA_RETURN_IF_ERROR(filler.fill(index));
  // A broadcast writes the same bytes however often it writes them, so its tensors may share memory.
  const bool mixes = reduces(call.kind) || exchanges(call.kind);
  return call.count > 1 && mixes ? check_apart(operation.tensors()) : Status();
}

}  // namespace rueda::core
