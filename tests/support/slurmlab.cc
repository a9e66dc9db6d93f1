// A Slurm cluster on the hosts of a NetLab: munged with one key on every host, then the controller, then a slurmd for
// each node. All state is below /run, which each host has for itself, so it ends with the host.
#include "tests/support/slurmlab.h"

#include <cstdio>
#include <cstdlib>
#include <stdexcept>

#include "tests/support/namespaces.h"

namespace rueda::test {
namespace {

std::string configuration(int hosts, int cores) {
  return R"(ClusterName=lab
SlurmctldHost=node1
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
CredType=cred/munge
StateSaveLocation=/run/slurm/state
SlurmdSpoolDir=/run/slurm/spool
SlurmctldPidFile=/run/slurm/slurmctld.pid
SlurmdPidFile=/run/slurm/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
MpiDefault=none
ReturnToService=2
NodeName=node[1-)" +
         std::to_string(hosts) + "] CPUs=" + std::to_string(cores) + R"( State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
)";
}

}  // namespace

SlurmLab::SlurmLab(int hosts, int cores) : lab_({.hosts = hosts}) {
  const std::string key(64, 'k');
  for (int host = 0; host < hosts; ++host) {
    static_cast<void>(lab_.shell(host, "mkdir -m 755 /run/munge; mkdir -p /run/slurm/state /run/slurm/spool"));
    lab_.write_file(host, "/run/munge.key", key);
    lab_.write_file(host, "/run/slurm.conf", configuration(hosts, cores));
    static_cast<void>(lab_.shell(host,
                                 "chmod 600 /run/munge.key; munged --force --key-file=/run/munge.key "
                                 "--pid-file=/run/munge/pid --seed-file=/run/munge/seed --log-file=/run/munge/log"));
  }
  static_cast<void>(lab_.shell(0, "SLURM_CONF=/run/slurm.conf slurmctld -f /run/slurm.conf -L /run/slurm/ctld.log"));
  for (int host = 0; host < hosts; ++host) {
    static_cast<void>(lab_.shell(host, "SLURM_CONF=/run/slurm.conf slurmd -f /run/slurm.conf -N " + NetLab::name(host) +
                                           " -L /run/slurm/slurmd.log"));
  }
}

void SlurmLab::skip_without() {
  NetLab::skip_without();
  for (const char* program : {"munged", "slurmctld", "slurmd", "salloc", "srun"}) {
    if (run_command({"sh", "-c", std::string("command -v ") + program}).exit_code == 0) continue;
    std::printf("skipped: there is no %s\n", program);
    std::exit(77);
  }
}

std::vector<std::string> SlurmLab::on_front() const {
  auto words = lab_.on(0);
  words.insert(words.end(), {"env", "SLURM_CONF=/run/slurm.conf"});
  return words;
}

}  // namespace rueda::test
