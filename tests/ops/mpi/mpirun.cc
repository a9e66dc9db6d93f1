#include "tests/ops/mpi/mpirun.h"

namespace rueda::test {
namespace {

std::string host_variable(Hosts hosts) {
  switch (hosts) {
    case Hosts::kAlone: return "RUEDA_HOSTNAME=host$OMPI_COMM_WORLD_RANK";
    case Hosts::kPairs: return "RUEDA_HOSTNAME=host$((OMPI_COMM_WORLD_RANK / 2))";
    case Hosts::kTogether: break;
  }
  return "RUEDA_HOSTNAME=host";
}

}  // namespace

CommandResult mpirun(int ranks, Hosts hosts, const std::vector<std::string>& variables,
                     const std::vector<std::string>& program) {
  std::vector<std::string> words = {"env",
                                    "OMPI_ALLOW_RUN_AS_ROOT=1",
                                    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1",
                                    "mpirun",
                                    "--oversubscribe",
                                    "--bind-to",
                                    "none",
                                    "--map-by",
                                    "slot",
                                    "--timeout",
                                    "300",
                                    "-np",
                                    std::to_string(ranks)};
  std::string line = host_variable(hosts);
  for (const std::string& variable : variables) line += " " + variable;
  words.insert(words.end(), {"sh", "-c", line + " exec \"$0\" \"$@\""});
  words.push_back(std::string(RUEDA_TEST_BIN) + "/" + program.front());
  words.insert(words.end(), program.begin() + 1, program.end());
  return run_command(words);
}

int count_of(const std::string& all, const std::string& text) {
  int count = 0;
  for (size_t at = all.find(text); at != std::string::npos; at = all.find(text, at + 1)) ++count;
  return count;
}

}  // namespace rueda::test
