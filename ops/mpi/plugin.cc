// What the host sees of the plug-in: algorithms over MPI's own collectives, and a way to join the ranks that mpirun
// started.
//
//   host ─ rueda_plugin(host table) ─▶ plug-in table: "mpi_native" for all-reduce and broadcast, MpiSource
//   host ─ join(request, deadline) ──▶ MpiThread of the process ─ Joining ─▶ MpiFabric
//
// The algorithms are the host's own "native" ones under our name: the plug-in only brings the collectives that they run
// over. The library is asked for its version before the first MPI call that needs its ABI: MPI_Get_library_version is
// one that every library has and that may be called before MPI_Init.
#include <algorithm>
#include <optional>
#include <vector>

#include "ops/algorithm.h"
#include "ops/mpi/fabric.h"
#include "ops/mpi/library.h"
#include "runtime/base/build_id.h"

namespace rueda::mpi {
namespace {

using core::Algorithm;
using core::OpKind;
using core::Result;

/// The time that a join may take beyond its deadline, so that its own sentence arrives: MPI_Init cannot be interrupted.
constexpr std::chrono::seconds kSlack{2};

/// As much as any MPI library writes of itself: it may be another than the one whose constant this was compiled with.
constexpr size_t kMostVersionText = 16384;
static_assert(MPI_MAX_LIBRARY_VERSION_STRING <= kMostVersionText);

Result<Library> find_library() {
  static char text[kMostVersionText];
  int length = 0;
  if (MPI_Get_library_version(text, &length) != MPI_SUCCESS) {
    return Status(Code::kUnsupported, "the MPI library of this process does not say which one it is");
  }
  const Library found = parse_library(std::string_view(text, static_cast<size_t>(length)));
  if (same_abi(built_for(), found)) return found;
  return Status(Code::kUnsupported, "the MPI plug-in was built for " + built_for().text() + ", and this process has " +
                                        found.text() +
                                        ": build one for that with rueda-build-mpi and name it in RUEDA_MPI_PLUGIN");
}

class MpiSource : public core::FabricSource {
 public:
  explicit MpiSource(const rueda_host* host) : host_(host) {}

  Result<std::shared_ptr<core::Fabric>> join(const core::FabricRequest& request, Deadline deadline) override {
    if (const auto found = find_library(); !found.ok()) return found.status();
    std::optional<MPI_Comm> given;
    if (request.communicator != nullptr) given = *static_cast<const MPI_Comm*>(request.communicator);
    MpiThread& thread = MpiThread::of_process(host_);
    const auto joining = std::make_shared<Joining>(thread, request, given, deadline);
    const Status status = thread.run([joining] { return joining->run(); }, deadline.later(Deadline::after(kSlack)));
    if (!status.ok()) {
      // MPI still writes to memory of what it has begun: that is kept for ever.
      if (status.code() == Code::kTimeout) static_cast<void>(new std::shared_ptr<Joining>(joining));
      return status;
    }
    const Reductions* reductions = nullptr;
    const auto make = [this, &reductions, &thread] {
      static auto* const made = [this, &thread] {
        auto* const reductions_of_process = new Reductions(host_);
        thread.at_end([reductions_of_process] { reductions_of_process->free(); });
        return reductions_of_process;
      }();
      reductions = made;
      return Status();
    };
    RUEDA_RETURN_IF_ERROR(thread.run(make, Deadline::never()));
    return std::shared_ptr<core::Fabric>(std::make_shared<MpiFabric>(thread, joining->joined(), *reductions));
  }

  Result<std::string> library() override {
    const auto found = find_library();
    if (!found.ok()) return found.status();
    return found.value().text();
  }

 private:
  const rueda_host* const host_;
};

/// The host's algorithms over a library's collectives, under our name; none if the host shows none.
std::vector<Algorithm> named_algorithms(const rueda_host* host) {
  std::vector<Algorithm> named;
  for (const OpKind kind : {OpKind::kAllreduce, OpKind::kBroadcast}) {
    const Algorithm* algorithm = host->find_algorithm(static_cast<int32_t>(kind), "native");
    if (algorithm == nullptr) continue;
    named.push_back(*algorithm);
    named.back().name = "mpi_native";
  }
  return named;
}

}  // namespace
}  // namespace rueda::mpi

extern "C" __attribute__((visibility("default"))) const rueda_plugin_table* rueda_plugin(const rueda_host* host) {
  if (host->abi != rueda::core::kPluginAbi || host->struct_size != sizeof(rueda_host)) return nullptr;
  static const std::vector<rueda::core::Algorithm> algorithms = rueda::mpi::named_algorithms(host);
  static rueda::mpi::MpiSource source(host);
  static const rueda_plugin_table table{sizeof(rueda_plugin_table),
                                        rueda::core::kPluginAbi,
                                        rueda::core::build_id(),
                                        "mpi",
                                        algorithms.data(),
                                        algorithms.size(),
                                        nullptr,
                                        0,
                                        &source};
  return &table;
}
