#pragma once
#include <filesystem>
#include <string>

namespace rueda::core::launcher {

/// A folder with a list of hosts, and a script that prints it. A test replaces the list while a job runs. The names
/// localhost and 127.0.0.1 count as two hosts, so a job grows and shrinks on one machine.
class HostList {
 public:
  explicit HostList(const std::string& hosts);
  ~HostList();
  HostList(const HostList&) = delete;
  HostList& operator=(const HostList&) = delete;

  void replace(const std::string& hosts) const;
  std::string path() const { return (folder_ / "hosts").string(); }
  /// Returns the line for --host-discovery-script.
  std::string script() const;

 private:
  const std::filesystem::path folder_;
};

}  // namespace rueda::core::launcher
