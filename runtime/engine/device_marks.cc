// Marks as the engine handles them. A device tells by a number that a mark has been passed, and not by a pointer: after
// the end of an epoch a device may still tell of marks that nobody waits for, and one that has failed never tells.
#include "runtime/engine/device_marks.h"

#include <fmt/format.h>

#include <array>
#include <map>

namespace rueda::core {
namespace {

/// What to call when a mark has been passed, by the notice's number. Never freed: a thread of the device's library may
/// look at it while the process ends.
struct WaitingNotices {
  Mutex mutex;
  std::map<uintptr_t, std::function<void()>> by_number RUEDA_GUARDED_BY(mutex);
  uintptr_t last RUEDA_GUARDED_BY(mutex) = 0;
};

WaitingNotices& waiting_notices() {
  static auto* const one = new WaitingNotices;
  return *one;
}

/// Under the lock, so that ~MarkNotice waits: `wake` only rings a bell.
void passed(void* number) {
  WaitingNotices& all = waiting_notices();
  MutexLock lock(all.mutex);
  const auto found = all.by_number.find(reinterpret_cast<uintptr_t>(number));
  if (found != all.by_number.end()) found->second();
}

}  // namespace

Status device_error(const DeviceFunctions& functions, int32_t index, std::string_view what) {
  std::array<char, 1024> why{};
  functions.why(functions.context, why.data(), why.size());
  return {Code::kSystem, fmt::format("device {} number {} could not {}: {}", functions.name, index, what, why.data())};
}

Result<bool> DeviceMark::passed() const {
  const int32_t state = token_ == 0 ? 1 : functions_.poll(functions_.context, token_);
  if (state < 0) return device_error(functions_, index_, "finish its work");
  return state > 0;
}

Result<std::shared_ptr<const DeviceMark>> make_mark(const DeviceFunctions& functions, int32_t index, void* stream) {
  uint64_t token = 0;
  if (functions.mark(functions.context, index, stream, &token) != 0)
    return device_error(functions, index, "mark a stream");
  return std::make_shared<const DeviceMark>(functions, index, token);
}

Status order_after(const DeviceFunctions& functions, int32_t index, uint64_t token, void* stream) {
  if (token == 0 || functions.order_after(functions.context, index, token, stream) == 0) return {};
  return device_error(functions, index, "make its stream wait for others");
}

MarkNotice::MarkNotice(std::function<void()> wake) {
  WaitingNotices& all = waiting_notices();
  MutexLock lock(all.mutex);
  number_ = ++all.last;
  all.by_number.emplace(number_, std::move(wake));
}

MarkNotice::~MarkNotice() {
  WaitingNotices& all = waiting_notices();
  MutexLock lock(all.mutex);
  all.by_number.erase(number_);
}

Status MarkNotice::ask(const DeviceMark& mark, MarkAsker asker) const {
  if (mark.token() == 0) {
    rueda::core::passed(reinterpret_cast<void*>(number_));
    return {};
  }
  const DeviceFunctions& functions = mark.functions();
  if (functions.notify(functions.context, mark.token(), asker, rueda::core::passed, reinterpret_cast<void*>(number_)) ==
      0) {
    return {};
  }
  return device_error(functions, mark.index(), "tell when its work is finished");
}

}  // namespace rueda::core
