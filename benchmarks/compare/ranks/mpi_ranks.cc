// MPI_Allreduce in place, of any MPI. Its non-blocking form is a library of schedules in Open MPI, and slower; so
// several sums are blocking calls one after the other.
#include <mpi.h>

#include <cstring>
#include <limits>
#include <stdexcept>

#include "benchmarks/compare/ranks/ranks.h"

namespace rueda::compare {
namespace {

class MpiRanks : public Ranks {
 public:
  MpiRanks() {
    MPI_Init(nullptr, nullptr);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &size_);
  }
  ~MpiRanks() override { MPI_Finalize(); }
  int rank() const override { return rank_; }
  int size() const override { return size_; }

  // Open MPI puts a comma behind its version; MPICH writes a page, whose first line has it.
  std::string library() const override {
    char text[MPI_MAX_LIBRARY_VERSION_STRING];
    int length = 0;
    MPI_Get_library_version(text, &length);
    std::string line(text, static_cast<size_t>(length));
    line = line.substr(0, line.find_first_of(",\n"));
    for (char& letter : line) {
      if (letter == '\t' || letter == ':') letter = ' ';
    }
    return line;
  }

  void sum(const Tensor& tensor, const Work&) override {
    if (tensor.count > static_cast<size_t>(std::numeric_limits<int>::max()))
      throw std::runtime_error("too many elements");
    reduce(tensor.data, static_cast<int>(tensor.count), MPI_FLOAT, MPI_SUM);
  }
  void start(const Tensor& tensor, const Work& work) override { sum(tensor, work); }
  void finish() override {}
  double max(double value) override { return reduce(&value, 1, MPI_DOUBLE, MPI_MAX), value; }
  double total(double value) override { return reduce(&value, 1, MPI_DOUBLE, MPI_SUM), value; }

 private:
  // By default an error ends the job, so there is none to return.
  static void reduce(void* data, int count, MPI_Datatype type, MPI_Op op) {
    MPI_Allreduce(MPI_IN_PLACE, data, count, type, op, MPI_COMM_WORLD);
  }
  int rank_ = 0;
  int size_ = 1;
};

}  // namespace

std::unique_ptr<Ranks> join_job() { return std::make_unique<MpiRanks>(); }

}  // namespace rueda::compare
