// The way of every enqueuing function of rueda.h. A handle exists before the operation is submitted, since its callback
// may run before the call returns and gets the handle's number; if the engine refuses the operation, the handle goes
// again.
#include "bindings/c/submit.h"

#include <utility>

#include "bindings/c/handle_table.h"
#include "bindings/c/last_error.h"
#include "runtime/engine/completer.h"

namespace rueda::core {
namespace {

Result<std::shared_ptr<Operation>> prepare(rueda_session* session, const OperationCall& call, HandleCell& cell) {
  Result<std::shared_ptr<Engine>> found = working_engine_of(session);
  if (!found.ok()) return found.status();
  return build_operation(std::move(found).value(), session->devices, call, cell);
}

/// The handle of an operation that the engine has yet to take. It goes again at the end, unless it is kept.
class HandleOnTrial {
 public:
  explicit HandleOnTrial(rueda_handle number) : number_(number) {}
  ~HandleOnTrial() {
    if (number_ != 0) static_cast<void>(handles().remove(number_));
  }
  HandleOnTrial(const HandleOnTrial&) = delete;
  HandleOnTrial& operator=(const HandleOnTrial&) = delete;
  rueda_handle number() const { return number_; }
  rueda_handle keep() { return std::exchange(number_, 0); }

 private:
  rueda_handle number_;
};

}  // namespace

int32_t start(rueda_session* session, const OperationCall& given, rueda_handle* handle) {
  return guarded([&]() -> Status {
    if (handle == nullptr) return Status(Code::kInvalidArgument, "handle is NULL");
    *handle = 0;
    OperationCall call = given;
    if (session != nullptr) call.completions = &session->completions;
    HandleCell cell;
    const Result<std::shared_ptr<Operation>> operation = prepare(session, call, cell);
    if (!operation.ok()) return operation.status();
    const bool drained = operation.value()->spec().announce != nullptr;
    HandleOnTrial trial(handles().insert(operation.value(), drained ? *call.completions : nullptr));
    if (cell != nullptr) cell->store(trial.number());
    Status entered = operation.value()->engine()->submit(operation.value());
    if (entered.ok()) *handle = trial.keep();
    return entered;
  });
}

int32_t run(rueda_session* session, const OperationCall& call) {
  return guarded([&]() -> Status {
    if (Completer::in_callback()) {
      return Status(Code::kInvalidArgument,
                    "a blocking operation may not be called inside a callback; enqueue it instead");
    }
    HandleCell cell;
    const Result<std::shared_ptr<Operation>> operation = prepare(session, call, cell);
    if (!operation.ok()) return operation.status();
    if (operation.value()->owns_outputs()) {
      return Status(
          Code::kInvalidArgument,
          "a blocking operation needs output data or `allocate`; memory of the library's would be freed at once");
    }
    const bool announced = operation.value()->spec().callback != nullptr;
    const HandleOnTrial trial(announced ? handles().insert(operation.value(), nullptr) : 0);
    if (announced) cell->store(trial.number());
    Status entered;
    return operation.value()->engine()->submit_and_wait(operation.value(), entered);
  });
}

OperationCall as_group(rueda_session* session, OperationCall call) {
  call.group = session != nullptr ? session->groups.fetch_add(1) + 1 : 0;
  return call;
}

}  // namespace rueda::core
