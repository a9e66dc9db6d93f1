#pragma once
#include <numeric>
#include <vector>

#include "runtime/engine/executor.h"

namespace rueda::core {

/// The team of a batch, host by host. Made from a team whose `hosts` are known. A value.
class HostMap {
 public:
  explicit HostMap(const Team& team) : sizes_(team.hosts), begins_(team.hosts.size(), 0) {
    std::exclusive_scan(sizes_.begin(), sizes_.end(), begins_.begin(), 0);
    while (own_ + 1 < hosts() && begins_[at(own_ + 1)] <= team.index) ++own_;
    local_.ranks.assign(team.ranks.begin() + begins_[at(own_)], team.ranks.begin() + begins_[at(own_)] + size(own_));
    local_.index = team.index - begins_[at(own_)];
    local_.groups = {size(own_)};
    for (const int members : sizes_) slices_ = std::max(slices_, members);
  }

  int hosts() const { return static_cast<int>(sizes_.size()); }
  int own_host() const { return own_; }
  int size(int host) const { return sizes_[at(host)]; }
  /// The members on this rank's host.
  const Team& local() const { return local_; }
  /// The number of slices of a chunk: the ranks of the largest host.
  int slices() const { return slices_; }
  /// The index in `local` of this host's owner of a slice, and the member of the team that owns it on any host.
  int local_owner(int slice) const { return slice % size(own_); }
  int owner(int host, int slice) const { return begins_[at(host)] + slice % size(host); }
  /// The slices that this rank owns on its host.
  std::vector<int> owned() const {
    std::vector<int> slices;
    for (int slice = local_.index; slice < slices_; slice += size(own_)) slices.push_back(slice);
    return slices;
  }

 private:
  static size_t at(int host) { return static_cast<size_t>(host); }

  std::vector<int> sizes_, begins_;
  int own_ = 0;
  int slices_ = 1;
  Team local_;
};

/// The call as the members on this rank's host see it. Borrows `local`.
inline Call on_host(const Call& call, const Team& local) {
  Call mine = call;
  mine.team = &local;
  return mine;
}

}  // namespace rueda::core
