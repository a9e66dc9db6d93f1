#pragma once
#include <dlfcn.h>

#include <string>

namespace rueda::cuda {

/// Looks functions of a library up and remembers the first that is not there. One thread.
class SymbolFinder {
 public:
  explicit SymbolFinder(void* library) : library_(library) {}
  template <typename Function>
  void find(Function& function, const char* name) {
    find_optional(function, name);
    if (function == nullptr && missing_ == nullptr) missing_ = name;
  }
  /// Leaves null if the library does not have it.
  template <typename Function>
  void find_optional(Function& function, const char* name) {
    function = reinterpret_cast<Function>(::dlsym(library_, name));
  }
  /// Null if all were found.
  const char* missing() const { return missing_; }

 private:
  void* library_;
  const char* missing_ = nullptr;
};

/// The file that holds the function; `otherwise` if the system does not say.
inline std::string path_of(void* function, const std::string& otherwise) {
  Dl_info info{};
  const bool known = function != nullptr && ::dladdr(function, &info) != 0 && info.dli_fname != nullptr;
  return known ? info.dli_fname : otherwise;
}

}  // namespace rueda::cuda
