// The functions of rueda.h that send and receive.
#include <fmt/format.h>

#include "bindings/c/copy_in.h"
#include "bindings/c/last_error.h"
#include "bindings/c/submit.h"

namespace rueda::core {
namespace {

enum class Side { kSends, kReceives };

/// Calls `enqueue(call)` with the call in the set of the two; `tensor` is borrowed.
template <typename Enqueue>
int32_t with_peer(rueda_session* session, Side side, const rueda_tensor* tensor, int32_t peer,
                  const rueda_op_options* given, Enqueue&& enqueue) {
  rueda_op_options options{};
  int32_t root = peer;
  const int32_t code = guarded([&]() -> Status {
    const Result<std::shared_ptr<Engine>> engine = engine_of(session);
    if (!engine.ok()) return engine.status();
    const Result<rueda_op_options> copy = copy_in(given, "rueda_op_options");
    if (!copy.ok()) return copy.status();
    options = copy.value();
    RUEDA_RETURN_IF_ERROR(engine.value()->process_sets().check_member(static_cast<SetId>(options.process_set)));
    const int own = engine.value()->plan().rank;
    if (!engine.value()->process_sets().contains(static_cast<SetId>(options.process_set), peer) || peer == own) {
      return Status(Code::kInvalidArgument,
                    fmt::format("peer {} is not another member of process set {}", peer, options.process_set));
    }
    if (side == Side::kSends) root = own;
    const Result<SetId> set = session->pairs.of(*engine.value(), root, side == Side::kSends ? peer : own);
    if (set.ok()) options.process_set = static_cast<int32_t>(set.value());
    return set.status();
  });
  if (code != RUEDA_OK) return code;
  return enqueue({.kind = OpKind::kSend, .root = root, .inputs = tensor, .outputs = tensor, .options = &options});
}

int32_t start_with(rueda_session* session, Side side, const rueda_tensor* tensor, int32_t peer,
                   const rueda_op_options* options, rueda_handle* handle) {
  if (handle != nullptr) *handle = 0;
  return with_peer(session, side, tensor, peer, options,
                   [&](const OperationCall& call) { return start(session, call, handle); });
}

int32_t run_with(rueda_session* session, Side side, const rueda_tensor* tensor, int32_t peer,
                 const rueda_op_options* options) {
  return with_peer(session, side, tensor, peer, options, [&](const OperationCall& call) { return run(session, call); });
}

}  // namespace
}  // namespace rueda::core

namespace core = rueda::core;
using core::Side;

int32_t rueda_send_async(rueda_session* session, const rueda_tensor* input, int32_t peer,
                         const rueda_op_options* options, rueda_handle* handle) {
  return core::start_with(session, Side::kSends, input, peer, options, handle);
}

int32_t rueda_recv_async(rueda_session* session, const rueda_tensor* output, int32_t peer,
                         const rueda_op_options* options, rueda_handle* handle) {
  return core::start_with(session, Side::kReceives, output, peer, options, handle);
}

int32_t rueda_send(rueda_session* session, const rueda_tensor* input, int32_t peer, const rueda_op_options* options) {
  return core::run_with(session, Side::kSends, input, peer, options);
}

int32_t rueda_recv(rueda_session* session, const rueda_tensor* output, int32_t peer, const rueda_op_options* options) {
  return core::run_with(session, Side::kReceives, output, peer, options);
}
