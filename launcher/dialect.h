#pragma once
#include <span>
#include <string>
#include <vector>

namespace rueda::core::launcher {

/// How hvdrun takes a flag of horovodrun that is not one of its own.
enum class DialectUse {
  kSwitchWithoutMeaning,  ///< accepted, and told once
  kValueWithoutMeaning,   ///< the same, with a value
  kRefusedSwitch,         ///< ends hvdrun with a sentence
};

/// A flag of horovodrun. `why` says why it has no meaning, or what to do instead.
struct DialectFlag {
  const char* name;
  DialectUse use;
  const char* why;
};

/// The flags of horovodrun that hvdrun does not have in another form.
std::span<const DialectFlag> dialect_flags();

/// Further names of the flag --`name` in horovodrun, each with a comma before it; empty if it has none.
std::string dialect_names(const std::string& name);

/// The flag that an entry of a section means in horovodrun's config files, as "stall-check-warning-time-seconds" for
/// "warning-time-seconds" in the section "stall-check". Empty if there is no such section.
std::string dialect_entry(const std::string& section, const std::string& entry);

/// One line about flags that were given and have no meaning; empty if there are none. `reasons` are as
/// "--cycle-time-ms (there is no cycle)".
std::string without_meaning(const std::vector<std::string>& reasons);

}  // namespace rueda::core::launcher
