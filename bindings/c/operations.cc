// The functions of rueda.h that enqueue.
#include "bindings/c/build_operation.h"
#include "bindings/c/handle_table.h"
#include "bindings/c/last_error.h"
#include "bindings/c/session.h"

namespace rueda::core {
namespace {

using HandleCell = std::shared_ptr<std::atomic<rueda_handle>>;

Result<std::shared_ptr<Operation>> prepare(rueda_session* session, const OperationCall& call, HandleCell cell,
                                           std::shared_ptr<Engine>& engine) {
  Result<std::shared_ptr<Engine>> found = engine_of(session);
  if (!found.ok()) return found.status();
  engine = std::move(found).value();
  return build_operation(engine, session->devices, call, std::move(cell));
}

int32_t start(rueda_session* session, const OperationCall& call, rueda_handle* handle) {
  return guarded([&]() -> Status {
    if (handle == nullptr) return Status(Code::kInvalidArgument, "handle is NULL");
    *handle = 0;
    std::shared_ptr<Engine> engine;
    auto cell = std::make_shared<std::atomic<rueda_handle>>(0);
    Result<std::shared_ptr<Operation>> operation = prepare(session, call, cell, engine);
    if (!operation.ok()) return operation.status();
    const rueda_handle number = handles().insert(operation.value());
    cell->store(number);
    const Status entered = engine->submit(operation.value());
    if (entered.ok()) {
      *handle = number;
    } else {
      static_cast<void>(handles().remove(number));
    }
    return entered;
  });
}

int32_t run(rueda_session* session, const OperationCall& call) {
  return guarded([&]() -> Status {
    if (Completer::in_callback()) {
      return Status(Code::kInvalidArgument,
                    "a blocking operation may not be called inside a callback; enqueue it instead");
    }
    std::shared_ptr<Engine> engine;
    const auto cell = std::make_shared<std::atomic<rueda_handle>>(0);
    const Result<std::shared_ptr<Operation>> operation = prepare(session, call, cell, engine);
    if (!operation.ok()) return operation.status();
    const bool announced = operation.value()->spec().callback != nullptr;
    if (announced) cell->store(handles().insert(operation.value()));
    Status entered;
    const Status result = engine->submit_and_wait(operation.value(), entered);
    if (announced) static_cast<void>(handles().remove(cell->load()));
    return result;
  });
}

OperationCall allreduce_call(const rueda_tensor* input, const rueda_tensor* output, int32_t op,
                             const rueda_op_options* options) {
  return {.kind = OpKind::kAllreduce, .op = op, .inputs = input, .outputs = output, .options = options};
}

OperationCall broadcast_call(const rueda_tensor* input, const rueda_tensor* output, int32_t root,
                             const rueda_op_options* options) {
  return {.kind = OpKind::kBroadcast, .root = root, .inputs = input, .outputs = output, .options = options};
}

OperationCall barrier_call(const rueda_op_options* options) { return {.kind = OpKind::kBarrier, .options = options}; }

OperationCall grouped_call(rueda_session* session, size_t count, const rueda_tensor* inputs,
                           const rueda_tensor* outputs, const char* const* names, int32_t op,
                           const rueda_op_options* options) {
  const uint64_t group = session != nullptr ? session->groups.fetch_add(1) + 1 : 0;
  return {.kind = OpKind::kAllreduce,
          .op = op,
          .count = count,
          .inputs = inputs,
          .outputs = outputs,
          .names = names,
          .options = options,
          .group = group};
}

}  // namespace
}  // namespace rueda::core

namespace core = rueda::core;

int32_t rueda_allreduce_async(rueda_session* session, const rueda_tensor* input, const rueda_tensor* output, int32_t op,
                              const rueda_op_options* options, rueda_handle* handle) {
  return core::start(session, core::allreduce_call(input, output, op, options), handle);
}

int32_t rueda_allreduce(rueda_session* session, const rueda_tensor* input, const rueda_tensor* output, int32_t op,
                        const rueda_op_options* options) {
  return core::run(session, core::allreduce_call(input, output, op, options));
}

int32_t rueda_grouped_allreduce_async(rueda_session* session, size_t count, const rueda_tensor* inputs,
                                      const rueda_tensor* outputs, const char* const* names, int32_t op,
                                      const rueda_op_options* options, rueda_handle* handle) {
  return core::start(session, core::grouped_call(session, count, inputs, outputs, names, op, options), handle);
}

int32_t rueda_grouped_allreduce(rueda_session* session, size_t count, const rueda_tensor* inputs,
                                const rueda_tensor* outputs, const char* const* names, int32_t op,
                                const rueda_op_options* options) {
  return core::run(session, core::grouped_call(session, count, inputs, outputs, names, op, options));
}

int32_t rueda_broadcast_async(rueda_session* session, const rueda_tensor* input, const rueda_tensor* output,
                              int32_t root, const rueda_op_options* options, rueda_handle* handle) {
  return core::start(session, core::broadcast_call(input, output, root, options), handle);
}

int32_t rueda_broadcast(rueda_session* session, const rueda_tensor* input, const rueda_tensor* output, int32_t root,
                        const rueda_op_options* options) {
  return core::run(session, core::broadcast_call(input, output, root, options));
}

int32_t rueda_barrier_async(rueda_session* session, const rueda_op_options* options, rueda_handle* handle) {
  return core::start(session, core::barrier_call(options), handle);
}

int32_t rueda_barrier(rueda_session* session, const rueda_op_options* options) {
  return core::run(session, core::barrier_call(options));
}
