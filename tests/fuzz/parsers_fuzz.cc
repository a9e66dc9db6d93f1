// libFuzzer over one parser of bytes from outside, chosen by name:
//
//   bin/parsers_fuzz --parser=wish [libFuzzer's options and corpus]
//   bin/parsers_fuzz --parsers                                        prints the names
//
// One program has all parsers, because linking the library for each would take longer than the short runs. For long
// ones there is a program for each room. libFuzzer itself does not know the options that begin with two dashes and
// passes over them.
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "tests/fuzz/targets.h"

namespace rueda::fuzz {
namespace {

/// Those of the rooms that this program was linked with.
std::vector<Target> all_targets() {
  std::vector<Target> all;
  for (const auto targets :
       {store_targets, engine_targets, net_targets, local_targets, launcher_targets, cuda_targets}) {
    if (targets == nullptr) continue;
    const auto room = targets();
    all.insert(all.end(), room.begin(), room.end());
  }
  return all;
}

Target& chosen() {
  static Target target{};
  return target;
}

}  // namespace
}  // namespace rueda::fuzz

extern "C" int LLVMFuzzerInitialize(int* count, char*** words) {
  constexpr const char* kChoice = "--parser=";
  for (int i = 1; i < *count; ++i) {
    const char* word = (*words)[i];
    for (const auto& target : rueda::fuzz::all_targets()) {
      if (std::strcmp(word, "--parsers") == 0) std::puts(target.name);
      if (std::strncmp(word, kChoice, std::strlen(kChoice)) == 0 &&
          std::strcmp(word + std::strlen(kChoice), target.name) == 0) {
        rueda::fuzz::chosen() = target;
      }
    }
    if (std::strcmp(word, "--parsers") == 0) std::exit(0);
  }
  if (rueda::fuzz::chosen().take == nullptr) {
    std::fputs("parsers_fuzz: give --parser=NAME; --parsers prints the names\n", stderr);
    std::exit(2);
  }
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  rueda::fuzz::chosen().take(std::as_bytes(std::span(data, size)));
  return 0;
}
