#pragma once
#include <dlfcn.h>

#include <cstdlib>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/bindings/submission.h"
#include "tests/support/plugins/fake_device.h"

namespace rueda::test {

inline const std::string kTestPlugin = std::string(RUEDA_TEST_PLUGINS) + "/test_plugin.so";

using Values = std::map<std::string, std::string>;

/// Sets variables for a test case, before it has threads.
class Variables {
 public:
  explicit Variables(const Values& values) {
    for (const auto& [name, value] : values) {
      ::setenv(name.c_str(), value.c_str(), 1);
      names_.push_back(name);
    }
  }
  ~Variables() {
    for (const std::string& name : names_) ::unsetenv(name.c_str());
  }
  Variables(const Variables&) = delete;
  Variables& operator=(const Variables&) = delete;

 private:
  std::vector<std::string> names_;
};

/// Of the test plug-in.
inline FakeDevice& fake_device() {
  void* library = ::dlopen(kTestPlugin.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) throw std::runtime_error(::dlerror());
  const auto function = reinterpret_cast<FakeDevice* (*)()>(::dlsym(library, "rueda_test_fake_device"));
  return *function();
}

/// A stream of the fake device for a scope.
class FakeStream {
 public:
  FakeStream() : stream_(fake_device().make_stream()) {}
  ~FakeStream() { fake_device().end_stream(stream_); }
  FakeStream(const FakeStream&) = delete;
  FakeStream& operator=(const FakeStream&) = delete;
  void* get() const { return stream_; }

 private:
  void* stream_;
};

inline std::vector<float> numbers(int rank, size_t count) {
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i) values[i] = static_cast<float>(static_cast<size_t>(rank) * 1000 + i % 97);
  return values;
}

inline float sum_of_numbers(int size, size_t i) {
  return static_cast<float>(size * (size - 1) / 2 * 1000) + static_cast<float>(size) * static_cast<float>(i % 97);
}

inline void expect_summed_numbers(const std::vector<float>& values, int size, const std::string& what) {
  for (size_t i = 0; i < values.size(); ++i) {
    if (values[i] == sum_of_numbers(size, i)) continue;
    expect(false, what + ": element " + std::to_string(i) + " is " + std::to_string(values[i]) + ", expected " +
                      std::to_string(sum_of_numbers(size, i)));
  }
}

}  // namespace rueda::test
