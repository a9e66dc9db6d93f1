// How a rank comes into a fabric, step by step on the MPI thread:
//
//   1  the ranks asked for, as a communicator           MPI_Comm_create_group, only if some were named
//   2  three copies of it: frames, bytes, collectives   MPI_Comm_idup: tags of the application and ours never meet
//   3  hashes of host names, of all ranks               MPI_Iallgather: how many ranks share this host
//   4  rank 0's offer                                   MPI_Ibcast: a text that rank 0 has for all
//
// All but step 1 are non-blocking calls that are tested until the deadline, since a rank that never comes would
// otherwise hang the process in MPI. Step 1 has no such form. What has begun at the deadline cannot be taken back: the
// thread stops calling MPI for good.
#include "ops/mpi/joining.h"

#include <algorithm>

namespace rueda::mpi {
namespace {

constexpr int kChooseTag = 4021;  // of the making of a communicator, among the application's own

/// FNV-1a, 64 bits: names of hosts are only compared.
uint64_t hash_of(const std::string& text) {
  uint64_t hash = 14695981039346656037u;
  for (const char c : text) hash = (hash ^ static_cast<uint8_t>(c)) * 1099511628211u;
  return hash;
}

std::string list_of(const std::vector<int>& ranks) {
  std::string text;
  for (const int rank : ranks) text += (text.empty() ? "" : ", ") + std::to_string(rank);
  return "[" + text + "]";
}

Status wrong(const std::string& what) { return {Code::kInvalidArgument, "rueda_init: " + what}; }

/// Copies inherit the application's error handler, which may end the process. Ours return errors.
Status name_and_calm(MPI_Comm comm, const char* name) {
  RUEDA_RETURN_IF_ERROR(checked(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler"));
  return checked(MPI_Comm_set_name(comm, name), "MPI_Comm_set_name");
}

}  // namespace

Status Joining::run() {
  RUEDA_RETURN_IF_ERROR(thread_.start());
  MPI_Comm from = given_.value_or(MPI_COMM_WORLD), chosen = MPI_COMM_NULL;
  if (from == MPI_COMM_NULL) return wrong("the communicator is MPI_COMM_NULL: this process is not one of its ranks");
  int inter = 0;
  RUEDA_RETURN_IF_ERROR(checked(MPI_Comm_test_inter(from, &inter), "MPI_Comm_test_inter"));
  if (inter != 0) return wrong("the communicator is an inter-communicator; give one of all ranks of the job");
  if (!request_.ranks.empty()) RUEDA_RETURN_IF_ERROR(choose_ranks(from, chosen));
  RUEDA_RETURN_IF_ERROR(copy(chosen == MPI_COMM_NULL ? from : chosen));
  if (chosen != MPI_COMM_NULL) MPI_Comm_free(&chosen);
  RUEDA_RETURN_IF_ERROR(exchange_hosts());
  RUEDA_RETURN_IF_ERROR(learn_offer());
  // All ranks are past the fabric before last once they have met here.
  thread_.retired().free_old(joined_.frames);
  return {};
}

Status Joining::check_ranks(int rank, int size) const {
  std::vector<int> sorted = request_.ranks;
  std::sort(sorted.begin(), sorted.end());
  const std::string all = list_of(request_.ranks);
  if (sorted.front() < 0 || sorted.back() >= size) {
    return wrong("ranks " + all + " are not all among the " + std::to_string(size) + " of the communicator");
  }
  if (std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end()) return wrong("ranks " + all + " has one twice");
  if (std::binary_search(sorted.begin(), sorted.end(), rank)) return {};
  return wrong("rank " + std::to_string(rank) + " of the communicator is not among the job's ranks " + all);
}

Status Joining::choose_ranks(MPI_Comm from, MPI_Comm& chosen) {
  int rank = 0, size = 0;
  MPI_Comm_rank(from, &rank);
  MPI_Comm_size(from, &size);
  RUEDA_RETURN_IF_ERROR(check_ranks(rank, size));
  // Of the named ranks alone: the others need not take part in the call.
  MPI_Group all = MPI_GROUP_NULL, some = MPI_GROUP_NULL;
  MPI_Comm_group(from, &all);
  MPI_Group_incl(all, static_cast<int>(request_.ranks.size()), request_.ranks.data(), &some);
  Status made = checked(MPI_Comm_create_group(from, some, kChooseTag, &chosen), "MPI_Comm_create_group");
  MPI_Group_free(&some);
  MPI_Group_free(&all);
  return made;
}

/// While it lives, errors of the application's communicator are returned; afterwards its own handler is back.
class Joining::Calm {
 public:
  explicit Calm(MPI_Comm comm) : comm_(comm) {
    MPI_Comm_get_errhandler(comm_, &before_);
    MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN);
  }
  ~Calm() {
    MPI_Comm_set_errhandler(comm_, before_);
    MPI_Errhandler_free(&before_);
  }
  Calm(const Calm&) = delete;
  Calm& operator=(const Calm&) = delete;

 private:
  MPI_Comm comm_;
  MPI_Errhandler before_ = MPI_ERRHANDLER_NULL;
};

Status Joining::copy(MPI_Comm from) {
  const Calm calm(from);
  struct Copy {
    MPI_Comm* to;
    const char* name;
  };
  for (const Copy& one : {Copy{&joined_.frames, "rueda frames"}, Copy{&joined_.bytes, "rueda bytes"},
                          Copy{&joined_.collectives, "rueda collectives"}}) {
    MPI_Request request = MPI_REQUEST_NULL;
    RUEDA_RETURN_IF_ERROR(checked(MPI_Comm_idup(from, one.to, &request), "MPI_Comm_idup"));
    RUEDA_RETURN_IF_ERROR(wait(request));
    RUEDA_RETURN_IF_ERROR(name_and_calm(*one.to, one.name));
  }
  MPI_Comm_rank(joined_.frames, &joined_.rank);
  MPI_Comm_size(joined_.frames, &joined_.size);
  MPI_Comm_size(MPI_COMM_WORLD, &joined_.world_size);
  return {};
}

Status Joining::exchange_hosts() {
  hosts_.resize(static_cast<size_t>(joined_.size));
  host_ = hash_of(request_.host);
  MPI_Request request = MPI_REQUEST_NULL;
  RUEDA_RETURN_IF_ERROR(
      checked(MPI_Iallgather(&host_, 1, MPI_UINT64_T, hosts_.data(), 1, MPI_UINT64_T, joined_.collectives, &request),
              "MPI_Iallgather"));
  RUEDA_RETURN_IF_ERROR(wait(request));
  joined_.local_size = static_cast<int>(std::count(hosts_.begin(), hosts_.end(), host_));
  return {};
}

Status Joining::learn_offer() {
  offered_ = request_.offer;
  offered_.resize(core::kMaxOfferBytes + 1);  // text, and NUL behind it
  MPI_Request request = MPI_REQUEST_NULL;
  RUEDA_RETURN_IF_ERROR(checked(
      MPI_Ibcast(offered_.data(), static_cast<int>(offered_.size()), MPI_BYTE, 0, joined_.collectives, &request),
      "MPI_Ibcast"));
  RUEDA_RETURN_IF_ERROR(wait(request));
  joined_.offer = offered_.substr(0, offered_.find('\0'));
  return {};
}

/// Asks again and again: MPI has no wait with a deadline.
Status Joining::wait(MPI_Request& request) {
  const auto begin = std::chrono::steady_clock::now();
  for (;;) {
    int done = 0;
    RUEDA_RETURN_IF_ERROR(checked(MPI_Test(&request, &done, MPI_STATUS_IGNORE), "MPI_Test"));
    if (done != 0) return {};
    if (deadline_.passed()) {
      Status late(Code::kTimeout, "MPI: not all ranks of the communicator came to rueda_init in time");
      thread_.fail(late);  // what was begun cannot be taken back
      return late;
    }
    thread_.pause(begin);
  }
}

}  // namespace rueda::mpi
