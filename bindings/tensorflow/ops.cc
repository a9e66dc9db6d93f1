// The ops, as a table: an entry says what an op takes, gives and does.
//
// Collectives are registered as stateless and have an input `epoch`, which comes from the one stateful op RuedaEpoch of
// their graph. TensorFlow runs stateful ops of a tf.function one after the other, and so would run one collective at a
// time. Stateless ones it folds, merges and hoists, unless an input is unknown until the graph runs: the epoch is.
//
// The kernels for GPUs take their tensors in host memory: TensorFlow's own stream is out of reach of its C API.
#include "bindings/tensorflow/ops.h"

#include <array>
#include <string_view>
#include <vector>

#include "bindings/tensorflow/failure.h"
#include "bindings/tensorflow/kernel.h"
#include "bindings/tensorflow/shapes.h"

namespace rueda::tensorflow {
namespace {

constexpr const char* kTensors =
    "Ts: list({uint8, int8, uint16, int16, uint32, int32, uint64, int64, half, bfloat16, float, double, bool, "
    "complex64, complex128}) >= 1";
constexpr const char* kTensor =
    "T: {uint8, int8, uint16, int16, uint32, int32, uint64, int64, half, bfloat16, float, double, bool, complex64, "
    "complex128}";
constexpr const char* kNames = "names: list(string)";
constexpr const char* kProcessSet = "process_set: int";

struct Op {
  Kind kind;
  const char* name;
  std::vector<std::string> attributes;
  std::vector<std::string> inputs;
  std::vector<std::string> outputs;
  InferShapes infer;
};

std::vector<Op> table() {
  const std::vector<std::string> reduction = {kTensors,
                                              kNames,
                                              kProcessSet,
                                              "reduce_op: int",
                                              "codec: int",
                                              "prescale: string = '1'",
                                              "postscale: string = '1'"};
  const std::vector<std::string> in = {"tensors: Ts", "epoch: int64"};
  const std::vector<std::string> out = {"outputs: Ts"};
  return {
      {Kind::kAllreduce, "RuedaAllreduce", reduction, in, out, infer_same},
      {Kind::kBroadcast, "RuedaBroadcast", {kTensors, kNames, kProcessSet, "root: int"}, in, out, infer_same},
      {Kind::kAllgather, "RuedaAllgather", {kTensors, kNames, kProcessSet}, in, out, infer_rows},
      {Kind::kReducescatter, "RuedaReducescatter", reduction, in, out, infer_rows},
      {Kind::kAlltoall,
       "RuedaAlltoall",
       {kTensor, kNames, kProcessSet},
       {"tensor: T", "splits: int64", "epoch: int64"},
       {"output: T", "received_splits: int32"},
       infer_alltoall},
      {Kind::kJoin, "RuedaJoin", {kProcessSet}, {"epoch: int64"}, {"last_rank: int32"}, infer_scalar},
      {Kind::kEpoch, "RuedaEpoch", {}, {}, {"epoch: int64"}, infer_scalar},
      {Kind::kQuery, "RuedaQuery", {"question: int", kProcessSet}, {}, {"answer: int32"}, infer_scalar},
  };
}

template <Kind kind>
void* create(TF_OpKernelConstruction* construction) {
  return create_kernel(kind, construction);
}

CreateKernel creator(Kind kind) {
  switch (kind) {
    case Kind::kAllreduce: return create<Kind::kAllreduce>;
    case Kind::kBroadcast: return create<Kind::kBroadcast>;
    case Kind::kAllgather: return create<Kind::kAllgather>;
    case Kind::kReducescatter: return create<Kind::kReducescatter>;
    case Kind::kAlltoall: return create<Kind::kAlltoall>;
    case Kind::kJoin: return create<Kind::kJoin>;
    case Kind::kEpoch: return create<Kind::kEpoch>;
    case Kind::kQuery: break;
  }
  return create<Kind::kQuery>;
}

std::string define(const Op& op) {
  TF_OpDefinitionBuilder* const builder = api().NewOpDefinitionBuilder(op.name);
  for (const std::string& attribute : op.attributes) api().OpDefinitionBuilderAddAttr(builder, attribute.c_str());
  for (const std::string& input : op.inputs) api().OpDefinitionBuilderAddInput(builder, input.c_str());
  for (const std::string& output : op.outputs) api().OpDefinitionBuilderAddOutput(builder, output.c_str());
  // This sets the mark whatever the argument is, so it is called only where it is meant.
  if (op.inputs.empty()) api().OpDefinitionBuilderSetIsStateful(builder, true);
  api().OpDefinitionBuilderSetShapeInferenceFunction(builder, op.infer);
  const ScopedStatus status;
  api().RegisterOpDefinition(builder, status.get());
  return status.ok() ? std::string() : status.message();
}

std::string add_kernel(const Op& op, const char* device) {
  TF_KernelBuilder* const builder =
      api().NewAsyncKernelBuilder(op.name, device, creator(op.kind), compute, destroy_kernel);
  if (std::string_view(device) != "CPU") {
    for (const auto& arguments : {op.inputs, op.outputs}) {
      for (const std::string& argument : arguments) {
        api().KernelBuilder_HostMemory(builder, argument.substr(0, argument.find(':')).c_str());
      }
    }
  }
  const ScopedStatus status;
  api().RegisterKernelBuilder(op.name, builder, status.get());
  return status.ok() ? std::string() : status.message();
}

}  // namespace

std::string register_ops() {
  for (const Op& op : table()) {
    std::string failure = define(op);
    for (const char* device : {"CPU", "GPU"}) {
      if (failure.empty()) failure = add_kernel(op, device);
    }
    if (!failure.empty()) return std::string(op.name) + ": " + failure;
  }
  return {};
}

}  // namespace rueda::tensorflow
