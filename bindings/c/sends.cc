// The functions of rueda.h that send and receive.
#include <fmt/format.h>

#include "bindings/c/copy_in.h"
#include "bindings/c/last_error.h"
#include "bindings/c/submit.h"

namespace rueda::core {
namespace {

enum class Side { kSends, kReceives };

/// What is sent or received, and between whom. Pointers are the caller's.
struct Transfer {
  Side side;
  int32_t peer;
  const rueda_tensor* tensors;
  size_t count = 1;
  const char* const* names = nullptr;
};

enum class Form { kSingle, kGroup };

Status check_from_any(const Engine& engine, SetId set, Form form) {
  if (form == Form::kGroup) {
    return Status(Code::kInvalidArgument,
                  "a group must be received from one rank; RUEDA_ANY_SOURCE is for single receives");
  }
  const Result<std::vector<int>> ranks = engine.process_sets().ranks(set);
  if (!ranks.ok()) return ranks.status();
  if (ranks.value().size() > 1) return {};
  return {Code::kInvalidArgument, fmt::format("process set {} has no other rank to receive from", set)};
}

/// The call in the set of the two, with `options` a copy of the caller's that says so. From any rank: in the set given.
Result<OperationCall> call_between(rueda_session* session, const Transfer& transfer, Form form,
                                   const rueda_op_options* given, rueda_op_options& options) {
  const Result<std::shared_ptr<Engine>> found = working_engine_of(session);
  if (!found.ok()) return found.status();
  Engine& engine = *found.value();
  RUEDA_RETURN_IF_ERROR(copy_in(given, "rueda_op_options", options));
  const auto given_set = static_cast<SetId>(options.process_set);
  if (given_set >= kFirstPairSet) return ProcessSets::unknown(given_set);
  RUEDA_RETURN_IF_ERROR(engine.process_sets().check_member(given_set));
  const int own = engine.plan().rank;
  OperationCall call{.kind = OpKind::kSend,
                     .root = RUEDA_ANY_SOURCE,
                     .count = transfer.count,
                     .inputs = transfer.tensors,
                     .outputs = transfer.tensors,
                     .names = transfer.names,
                     .options = &options};
  if (transfer.side == Side::kReceives && transfer.peer == RUEDA_ANY_SOURCE) {
    RUEDA_RETURN_IF_ERROR(check_from_any(engine, given_set, form));
    return call;
  }
  if (!engine.process_sets().contains(given_set, transfer.peer) || transfer.peer == own) {
    return Status(Code::kInvalidArgument,
                  fmt::format("peer {} is not another member of process set {}", transfer.peer, options.process_set));
  }
  const int sender = transfer.side == Side::kSends ? own : transfer.peer;
  const Result<SetId> set = engine.pair_set(sender, transfer.side == Side::kSends ? transfer.peer : own);
  if (!set.ok()) return set.status();
  options.process_set = static_cast<int32_t>(set.value());
  call.root = sender;
  return call;
}

/// Calls `enqueue(call)` with the call in the set of the two.
template <typename Enqueue>
int32_t with_peer(rueda_session* session, const Transfer& transfer, Form form, const rueda_op_options* given,
                  Enqueue&& enqueue) {
  rueda_op_options options{};
  OperationCall call;
  const int32_t code = guarded([&]() -> Status {
    Result<OperationCall> made = call_between(session, transfer, form, given, options);
    if (!made.ok()) return made.status();
    call = made.value();
    if (form == Form::kGroup) call = as_group(session, call);
    return {};
  });
  return code != RUEDA_OK ? code : enqueue(call);
}

int32_t start_with(rueda_session* session, const Transfer& transfer, Form form, const rueda_op_options* options,
                   rueda_handle* handle) {
  if (handle != nullptr) *handle = 0;
  return with_peer(session, transfer, form, options,
                   [&](const OperationCall& call) { return start(session, call, handle); });
}

int32_t run_with(rueda_session* session, const Transfer& transfer, Form form, const rueda_op_options* options) {
  return with_peer(session, transfer, form, options, [&](const OperationCall& call) { return run(session, call); });
}

}  // namespace
}  // namespace rueda::core

namespace core = rueda::core;
using core::Form;
using core::Side;

int32_t rueda_send_async(rueda_session* session, const rueda_tensor* input, int32_t peer,
                         const rueda_op_options* options, rueda_handle* handle) {
  return core::start_with(session, {Side::kSends, peer, input}, Form::kSingle, options, handle);
}

int32_t rueda_send(rueda_session* session, const rueda_tensor* input, int32_t peer, const rueda_op_options* options) {
  return core::run_with(session, {Side::kSends, peer, input}, Form::kSingle, options);
}

int32_t rueda_grouped_send_async(rueda_session* session, size_t count, const rueda_tensor* inputs,
                                 const char* const* names, int32_t peer, const rueda_op_options* options,
                                 rueda_handle* handle) {
  return core::start_with(session, {Side::kSends, peer, inputs, count, names}, Form::kGroup, options, handle);
}

int32_t rueda_grouped_send(rueda_session* session, size_t count, const rueda_tensor* inputs, const char* const* names,
                           int32_t peer, const rueda_op_options* options) {
  return core::run_with(session, {Side::kSends, peer, inputs, count, names}, Form::kGroup, options);
}

int32_t rueda_recv_async(rueda_session* session, const rueda_tensor* output, int32_t peer,
                         const rueda_op_options* options, rueda_handle* handle) {
  return core::start_with(session, {Side::kReceives, peer, output}, Form::kSingle, options, handle);
}

int32_t rueda_recv(rueda_session* session, const rueda_tensor* output, int32_t peer, const rueda_op_options* options) {
  return core::run_with(session, {Side::kReceives, peer, output}, Form::kSingle, options);
}

int32_t rueda_grouped_recv_async(rueda_session* session, size_t count, const rueda_tensor* outputs,
                                 const char* const* names, int32_t peer, const rueda_op_options* options,
                                 rueda_handle* handle) {
  return core::start_with(session, {Side::kReceives, peer, outputs, count, names}, Form::kGroup, options, handle);
}

int32_t rueda_grouped_recv(rueda_session* session, size_t count, const rueda_tensor* outputs, const char* const* names,
                           int32_t peer, const rueda_op_options* options) {
  return core::run_with(session, {Side::kReceives, peer, outputs, count, names}, Form::kGroup, options);
}
