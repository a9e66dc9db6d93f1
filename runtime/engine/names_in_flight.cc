#include "runtime/engine/names_in_flight.h"

#include <fmt/format.h>

namespace rueda::core {
namespace {

std::string key_of(const Request& request) {
  std::string key = request.name;
  key.push_back('\0');
  key.append(reinterpret_cast<const char*>(&request.set), sizeof request.set);
  return key;
}

}  // namespace

Status NamesInFlight::reserve(const Operation& operation) {
  MutexLock lock(mutex_);
  const std::vector<Member>& members = operation.members();
  for (size_t i = 0; i < members.size(); ++i) {
    const Request& request = members[i].request;
    if (request.name.empty() || names_.insert(key_of(request)).second) continue;
    for (size_t undo = 0; undo < i; ++undo) {
      if (!members[undo].request.name.empty()) names_.erase(key_of(members[undo].request));
    }
    return Status(Code::kInvalidArgument,
                  fmt::format("{} \"{}\": this name is already in flight in process set {}; wait for it or use another",
                              name_of(request.metadata.kind), request.name, request.set));
  }
  return {};
}

void NamesInFlight::release(const Operation& operation) {
  MutexLock lock(mutex_);
  for (const Member& member : operation.members()) {
    if (!member.request.name.empty()) names_.erase(key_of(member.request));
  }
}

}  // namespace rueda::core
