// A name in flight is kept in one of three ways: by its text and the process set; or, once the name has a number, by
// that and the process set; or by a mark at the number, if the set is that of all ranks. `add` moves a name that is in
// flight from the first way to the others; `leave` therefore asks anew for the number, and finds the name where it is
// now.
#include "runtime/engine/names_in_flight.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

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
  const std::string what = fmt::format("{} \"{}\"", name_of(request.metadata.kind), request.name.view());
  const size_t twin = first_of_name(tensors, index);
  if (twin != index) {
    return {Code::kInvalidArgument,
            fmt::format("{}: tensors {} and {} of the group both have this name", what, twin, index)};
  }
  return {Code::kInvalidArgument, fmt::format("{}: this name is already in flight {}; wait for it or use another name",
                                              what, print_place(request.set))};
}

}  // namespace

uint32_t NamesInFlight::intern(std::string_view name) {
  MutexLock lock(mutex_);
  const auto found = numbers_.find(name);
  const uint32_t number = found != numbers_.end() ? found->second : add(name);
  known_[number - 1].interned = true;
  return number;
}

/// What is in flight by its text is in flight by its number from now on. That needs a look at all names in flight by
/// text, but a name is added once, and while fewer than `kKnownNames` have a number there are none. What needs memory
/// comes first and is undone if there is none: a key in `named_` must not outlive the text of its operation.
uint32_t NamesInFlight::add(std::string_view name) {
  known_.push_back({std::string(name)});  // a deque: the text keeps its address, which `numbers_` uses
  const auto number = static_cast<uint32_t>(known_.size());
  std::vector<SetId> sets;
  try {
    for (const Named& key : named_) {
      if (key.name == name) sets.push_back(key.set);
    }
    for (const SetId set : sets) static_cast<void>(enter_number(number, set));
    numbers_.emplace(known_.back().text, number);
  } catch (...) {
    for (const SetId set : sets) leave_number(number, set);
    known_.pop_back();
    throw;
  }
  for (const SetId set : sets) named_.erase(Named{name, set});
  return number;
}

/// Copies up to the last interned name: nobody knows the numbers behind it.
void NamesInFlight::copy_from(const NamesInFlight& other) {
  std::vector<Known> names;
  {
    MutexLock lock(other.mutex_);
    names.assign(other.known_.begin(), other.known_.end());
  }
  while (!names.empty() && !names.back().interned) names.pop_back();
  MutexLock lock(mutex_);
  for (const Known& name : names) known_[add(name.text) - 1].interned = name.interned;
}

std::string_view NamesInFlight::text(int64_t number) const {
  MutexLock lock(mutex_);
  if (number < 1 || static_cast<uint64_t>(number) > known_.size()) return {};
  const Known& known = known_[static_cast<size_t>(number) - 1];
  return known.interned ? std::string_view(known.text) : std::string_view();
}

/// A request that came with a number keeps it. One that came with a text gets the number of its name, if it has one, so
/// that the same name is never in flight in both forms. Programs bring their names in the same order step after step,
/// so the one behind the last one found is looked at first, which saves the hash.
uint32_t NamesInFlight::number_of(const Request& request) {
  if (request.number != 0 || numbers_.empty()) return request.number;
  const size_t next = after_last_ < known_.size() ? after_last_ : 0;
  if (request.name == known_[next].text) return found_at(next);
  const auto known = numbers_.find(request.name);
  return known == numbers_.end() ? 0 : found_at(known->second - 1);
}

uint32_t NamesInFlight::found_at(size_t index) {
  after_last_ = index + 1;
  return static_cast<uint32_t>(index + 1);
}

/// Unnamed operations are matched by their order, and so are sends of one name outside a group.
bool NamesInFlight::is_single(const Request& request) {
  return !request.name.empty() && (request.metadata.kind != OpKind::kSend || request.group != 0);
}

bool NamesInFlight::enter_number(uint32_t number, SetId set) {
  if (set == kGlobalSet) return !std::exchange(known_[number - 1].in_flight, true);
  return numbered_.insert(key_of(number, set));
}

/// Returns false if the name is in flight in this set already.
bool NamesInFlight::enter(const Request& request) {
  if (request.number != 0) return enter_number(request.number, request.set);
  return named_.insert(Named{request.name, request.set});
}

void NamesInFlight::leave_number(uint32_t number, SetId set) {
  if (set == kGlobalSet) {
    known_[number - 1].in_flight = false;
  } else {
    numbered_.erase(key_of(number, set));
  }
}

void NamesInFlight::leave(const Request& request) {
  const uint32_t number = number_of(request);
  if (number != 0) return leave_number(number, request.set);
  named_.erase(Named{request.name, request.set});
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
      if (request.number == 0 && known_.size() < kKnownNames) request.number = add(request.name);
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

/// Takes the lock once for all of them, because callers that enqueue wait for it.
void NamesInFlight::release(std::span<TensorPart* const> of) {
  MutexLock lock(mutex_);
  for (const TensorPart* tensor : of) {
    const Operation& operation = *tensor->operation;
    if (!operation.names_free) leave_first(operation, operation.tensors().size());
  }
}

/// What `reserve` passed over as not single was never entered.
void NamesInFlight::leave_first(const Operation& operation, size_t count) {
  for (const TensorPart& tensor : operation.tensors().first(count)) {
    if (is_single(tensor.request)) leave(tensor.request);
  }
}

}  // namespace rueda::core
