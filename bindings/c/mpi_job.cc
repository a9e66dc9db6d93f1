// A job whose ranks MPI knows. Rank 0 broadcasts the name and the key of the job through MPI, since no launcher of ours
// gave them. The rest of this file refuses contradictions: options that say what MPI says, and a launcher whose MPI
// does not know it.
#include "bindings/c/mpi_job.h"

#include <fmt/format.h>

#include <charconv>
#include <limits>
#include <string_view>

#include "runtime/base/log.h"
#include "runtime/base/random.h"

namespace rueda::core {
namespace {

constexpr char kNoKey[] = "-";
constexpr size_t kKeyDigits = 64;

/// "KEY JOB", the key in hex.
Result<std::string> make_offer(const Identity& identity, const Settings& settings) {
  if (settings.insecure) return kNoKey + (" " + identity.job);
  JobKey key = identity.key;
  if (!key.present) {
    const auto bytes = random_key();
    if (!bytes.ok()) return bytes.status();
    key.bytes = bytes.value();
  }
  std::string offer;
  for (const uint8_t byte : key.bytes) offer += fmt::format("{:02x}", byte);
  return offer + " " + identity.job;
}

/// Reads a key's digits straight into its own memory. Returns false if one is not a hexadecimal digit.
bool read_digits(std::string_view digits, SecretKey& key) {
  for (size_t i = 0; i < key.size(); ++i) {
    const char* pair = digits.data() + 2 * i;
    if (std::from_chars(pair, pair + 2, key[i], 16).ptr != pair + 2) return false;
  }
  return true;
}

Status take_offer(std::string_view offer, Identity& identity) {
  const size_t blank = offer.find(' ');
  const std::string_view key = offer.substr(0, blank);
  const bool keyed = key != kNoKey;
  identity.key = JobKey();
  if (blank == std::string_view::npos ||
      (keyed && (key.size() != kKeyDigits || !read_digits(key, identity.key.bytes)))) {
    return {Code::kMismatch, "init: rank 0 sent no job key and name through MPI; check that all ranks run one build"};
  }
  identity.job = offer.substr(blank + 1);
  identity.key.present = keyed;
  return {};
}

Status refuse_two_answers(const rueda_init_options& options) {
  if (options.has_rank != 0) {
    return {Code::kInvalidArgument,
            "options: rank and size are given, but MPI shall provide them; give one of the two"};
  }
  if (options.store != nullptr) {
    return {Code::kInvalidArgument,
            "options: a store is given, but MPI shall bring the ranks together; give one of the two"};
  }
  return {};
}

Result<std::vector<int>> chosen_ranks(const rueda_init_options& options) {
  if (options.rank_count == 0) return std::vector<int>();
  if (options.ranks == nullptr) return Status(Code::kInvalidArgument, "options: rank_count is set, but ranks is NULL");
  if (options.rank_count > static_cast<size_t>(std::numeric_limits<int>::max())) {
    return Status(Code::kInvalidArgument, fmt::format("options: rank_count is {}; the limit is {}", options.rank_count,
                                                      std::numeric_limits<int>::max()));
  }
  return std::vector<int>(options.ranks, options.ranks + options.rank_count);
}

/// If the launcher and the MPI library do not know each other, they start N programs that each believe to be a job of
/// one rank.
Status check_against_launcher(const Identity& told, int size, const std::string& library,
                              const Environment& environment) {
  const std::string said =
      fmt::format("MPI ({}) reports that it started {} rank{}", library, size, size == 1 ? "" : "s");
  const auto tasks = environment("SLURM_STEP_NUM_TASKS");
  if (size == 1 && environment("SLURM_STEP_ID") && tasks && *tasks != "1") {
    return {Code::kInvalidArgument,
            fmt::format("{}, but SLURM_STEP_NUM_TASKS is {}; start the job with srun --mpi=pmix", said, *tasks)};
  }
  if (told.launcher.empty() || told.size == size) return {};
  return {
      Code::kInvalidArgument,
      fmt::format("{}, but the variables of {} say {}; start the job with the mpirun of this MPI, or with hvdrun --mpi",
                  said, told.launcher, told.size)};
}

}  // namespace

bool asks_for_mpi(const rueda_init_options& options, const Settings& settings) {
  return options.mpi_comm != nullptr || options.rank_count != 0 || settings.controller == "mpi" ||
         settings.cpu_operations == "mpi";
}

bool needs_mpi(const rueda_init_options& options, const Identity& identity, const Environment& environment) {
  const bool by_mpirun = identity.launcher == "Open MPI" || identity.launcher == "PMI";
  return options.store == nullptr && by_mpirun && !choose_store(identity, environment).ok();
}

Result<std::shared_ptr<Fabric>> join_mpi(const rueda_init_options& options, const Settings& settings,
                                         FabricSource& source, const Environment& environment, Identity& identity,
                                         Deadline deadline) {
  RUEDA_RETURN_IF_ERROR(refuse_two_answers(options));
  const auto ranks = chosen_ranks(options);
  if (!ranks.ok()) return ranks.status();
  auto offer = make_offer(identity, settings);
  if (!offer.ok()) return offer.status();
  auto fabric = source.join({options.mpi_comm, ranks.value(), identity.host, offer.value()}, deadline);
  wipe(offer.value().data(), offer.value().size());
  if (!fabric.ok()) return fabric;
  const Fabric& joined = *fabric.value();
  const auto library = source.library();
  RUEDA_RETURN_IF_ERROR(
      check_against_launcher(identity, joined.world_size(), library.ok() ? library.value() : "MPI", environment));
  identity.rank = joined.rank();
  identity.size = joined.size();
  identity.local_size = joined.local_size();
  RUEDA_RETURN_IF_ERROR(take_offer(joined.offer(), identity));
  log(LogLevel::kInfo, "init: rank {} of {} by {}", identity.rank, identity.size, library.value());
  return fabric;
}

}  // namespace rueda::core
