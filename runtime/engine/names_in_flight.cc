// A name in flight is kept in one of two sets: by its text and the process set, or, once the name was interned, by its
// number and the process set. `intern` moves a name that is in flight from the first set to the second; `leave`
// therefore asks anew for the number, and finds the name where it is now.
#include "runtime/engine/names_in_flight.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "runtime/agreement/set_members.h"

namespace rueda::core {
namespace {

uint64_t key_of(uint32_t number, SetId set) { return uint64_t{set} << 32 | number; }

/// The first tensor with the name of tensor `index`: that tensor itself, unless the name comes before it.
size_t first_of_name(std::span<const TensorPart> tensors, size_t index) {
  const auto same = [&](const TensorPart& tensor) { return tensor.request.name == tensors[index].request.name; };
  return static_cast<size_t>(std::find_if(tensors.begin(), tensors.end(), same) - tensors.begin());
}

/// The sentence tells a name that comes twice in one group from a name that another operation has.
Status refuse(std::span<const TensorPart> tensors, size_t index) {
  const Request& request = tensors[index].request;
  const std::string what = fmt::format("{} \"{}\"", name_of(request.metadata.kind), request.name);
  const size_t twin = first_of_name(tensors, index);
  if (twin != index) {
    return {Code::kInvalidArgument,
            fmt::format("{}: tensors {} and {} of the group both have this name", what, twin, index)};
  }
  return {Code::kInvalidArgument, fmt::format("{}: this name is already in flight {}; wait for it or use another name",
                                              what, print_place(request.set))};
}

}  // namespace

/// What is in flight by its text is in flight by its number from now on. That needs a look at all names in flight by
/// text, but a name is interned once.
uint32_t NamesInFlight::intern(std::string_view name) {
  MutexLock lock(mutex_);
  if (const auto known = numbers_.find(name); known != numbers_.end()) return known->second;
  const std::string& text = texts_.emplace_back(name);  // a deque: the text keeps its address, which `numbers_` uses
  const auto number = static_cast<uint32_t>(texts_.size());
  numbers_.emplace(text, number);
  for (auto key = named_.begin(); key != named_.end();) {
    const bool same = key->name == name;
    if (same) numbered_.insert(key_of(number, key->set));
    key = same ? named_.erase(key) : std::next(key);
  }
  return number;
}

std::string_view NamesInFlight::text(int64_t number) const {
  MutexLock lock(mutex_);
  if (number < 1 || static_cast<uint64_t>(number) > texts_.size()) return {};
  return texts_[static_cast<size_t>(number) - 1];
}

/// A request that came with a number keeps it. One that came with a text gets the number of its name, if it has one, so
/// that the same name is never in flight in both forms.
uint32_t NamesInFlight::number_of(const Request& request) const {
  if (request.number != 0 || numbers_.empty()) return request.number;
  const auto known = numbers_.find(request.name);
  return known == numbers_.end() ? 0 : known->second;
}

/// Unnamed operations are matched by their order, and so are sends of one name outside a group.
bool NamesInFlight::is_single(const Request& request) {
  return !request.name.empty() && (request.metadata.kind != OpKind::kSend || request.group != 0);
}

/// False if the name is in flight in this set already.
bool NamesInFlight::enter(const Request& request) {
  const uint32_t number = number_of(request);
  return number != 0 ? numbered_.insert(key_of(number, request.set)).second
                     : named_.insert(Named{request.name, request.set}).second;
}

void NamesInFlight::leave(const Request& request) {
  if (const uint32_t number = number_of(request); number != 0) {
    numbered_.erase(key_of(number, request.set));
  } else {
    named_.erase(Named{request.name, request.set});
  }
}

/// A group enters whole or not at all, also if there is no memory for a name: what stayed would be a view of a text
/// that goes with its operation.
Status NamesInFlight::reserve(Operation& operation) {
  MutexLock lock(mutex_);
  const std::span<TensorPart> tensors = operation.tensors();
  size_t i = 0;
  try {
    for (; i < tensors.size(); ++i) {
      Request& request = tensors[i].request;
      if (request.name.empty()) continue;
      request.number = number_of(request);
      if (is_single(request) && !enter(request)) break;
    }
  } catch (...) {
    leave_first(operation, i);
    throw;
  }
  if (i == tensors.size()) return {};
  leave_first(operation, i);
  return refuse(tensors, i);
}

void NamesInFlight::release(const Operation& operation) {
  MutexLock lock(mutex_);
  leave_first(operation, operation.tensors().size());
}

/// What `reserve` passed over as not single was never entered.
void NamesInFlight::leave_first(const Operation& operation, size_t count) {
  for (const TensorPart& tensor : operation.tensors().first(count)) {
    if (is_single(tensor.request)) leave(tensor.request);
  }
}

}  // namespace rueda::core
