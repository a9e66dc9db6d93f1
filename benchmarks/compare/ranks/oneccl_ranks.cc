// oneCCL's all-reduce. Ranks meet at an address that rank 0 writes into the file of RUEDA_COMPARE_MEETING, because
// oneCCL leaves that to its caller; RUEDA_COMPARE_RANK and RUEDA_COMPARE_RANKS say which process this is.
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <oneapi/ccl.hpp>
#include <stdexcept>
#include <thread>
#include <vector>

#include "benchmarks/compare/ranks/ranks.h"

namespace rueda::compare {
namespace {

std::string variable(const char* name) {
  const char* const value = std::getenv(name);
  if (value == nullptr)
    throw std::runtime_error(std::string(name) + " is not set; run this program by benchmarks/compare");
  return value;
}

using Address = ccl::kvs::address_type;

// Written beside its place first, so that no rank reads half an address.
void publish(const std::string& path, const Address& address) {
  std::ofstream(path + ".new", std::ios::binary).write(address.data(), static_cast<std::streamsize>(address.size()));
  std::filesystem::rename(path + ".new", path);
}

// The program that started this job ends it at a limit, also if rank 0 died.
Address await(const std::string& path) {
  while (!std::filesystem::exists(path)) std::this_thread::yield();
  Address address;
  std::ifstream(path, std::ios::binary).read(address.data(), static_cast<std::streamsize>(address.size()));
  return address;
}

ccl::communicator make_communicator(int rank, int size) {
  ccl::init();
  const std::string path = variable("RUEDA_COMPARE_MEETING");
  ccl::shared_ptr_class<ccl::kvs> store;
  if (rank == 0) {
    store = ccl::create_main_kvs();
    publish(path, store->get_address());
  } else {
    store = ccl::create_kvs(await(path));
  }
  return ccl::create_communicator(size, rank, store);
}

class OneCclRanks : public Ranks {
 public:
  OneCclRanks()
      : rank_(std::stoi(variable("RUEDA_COMPARE_RANK"))),
        size_(std::stoi(variable("RUEDA_COMPARE_RANKS"))),
        world_(make_communicator(rank_, size_)) {}
  int rank() const override { return rank_; }
  int size() const override { return size_; }
  std::string library() const override {
    const auto version = ccl::get_library_version();
    return "oneCCL " + std::to_string(version.major) + "." + std::to_string(version.minor) + "." +
           std::to_string(version.update);
  }
  void sum(const Tensor& tensor, const Work&) override { begin(tensor).wait(); }
  void start(const Tensor& tensor, const Work&) override { running_.push_back(begin(tensor)); }
  void finish() override {
    for (ccl::event& each : running_) each.wait();
    running_.clear();
  }
  double max(double value) override { return reduced(value, ccl::reduction::max); }
  double total(double value) override { return reduced(value, ccl::reduction::sum); }

 private:
  ccl::event begin(const Tensor& tensor) {
    return ccl::allreduce(tensor.data, tensor.data, tensor.count, ccl::reduction::sum, world_);
  }
  double reduced(double value, ccl::reduction how) {
    ccl::allreduce(&value, &value, 1, how, world_).wait();
    return value;
  }
  const int rank_;
  const int size_;
  ccl::communicator world_;
  std::vector<ccl::event> running_;
};

}  // namespace

std::unique_ptr<Ranks> join_job() { return std::make_unique<OneCclRanks>(); }

}  // namespace rueda::compare
