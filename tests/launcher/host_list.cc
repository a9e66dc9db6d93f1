// The list is written beside its place and then moved there, so the script never prints half of it.

#include "tests/launcher/host_list.h"

#include <unistd.h>

#include <fstream>

namespace rueda::core::launcher {

HostList::HostList(const std::string& hosts)
    : folder_(std::filesystem::temp_directory_path() / ("rueda-discovery-" + std::to_string(getpid()))) {
  std::filesystem::create_directories(folder_);
  replace(hosts);
}

HostList::~HostList() { std::filesystem::remove_all(folder_); }

void HostList::replace(const std::string& hosts) const {
  std::ofstream(folder_ / "next") << hosts;
  std::filesystem::rename(folder_ / "next", folder_ / "hosts");
}

std::string HostList::script() const { return "cat " + path(); }

}  // namespace rueda::core::launcher
