#pragma once
#include <string>
#include <vector>

#include "tests/support/netlab.h"

namespace rueda::test {

/// A lab whose hosts are the nodes of a Slurm cluster with `cores` cores each (Debian's munged, slurmctld and slurmd).
/// Dies as a NetLab does. Used as one.
class SlurmLab {
 public:
  SlurmLab(int hosts, int cores);

  /// As NetLab's, and also where Slurm is not installed.
  static void skip_without();

  NetLab& lab() { return lab_; }
  /// The words before a command of Slurm or hvdrun, to run it on node1, where the controller is.
  std::vector<std::string> on_front() const;

 private:
  NetLab lab_;
};

}  // namespace rueda::test
