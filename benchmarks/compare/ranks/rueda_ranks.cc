// Rueda through its C API, as a user's program would call it. Tensors have names that last, so that requests of a later
// step are short.
#include <cstring>
#include <map>
#include <stdexcept>
#include <utility>
#include <vector>

#include "benchmarks/compare/ranks/ranks.h"
#include "rueda.h"

namespace rueda::compare {
namespace {

void check(int32_t code) {
  if (code != RUEDA_OK) throw std::runtime_error(rueda_last_error());
}

int32_t codec_of(const Work& work) {
  if (work.codec == "fp16") return RUEDA_CODEC_FP16;
  return work.codec == "bf16" ? RUEDA_CODEC_BF16 : RUEDA_CODEC_NONE;
}

class RuedaRanks : public Ranks {
 public:
  RuedaRanks() { check(rueda_init(nullptr, &session_)); }
  ~RuedaRanks() override { rueda_shutdown(session_); }
  int rank() const override { return rueda_rank(session_); }
  int size() const override { return rueda_size(session_); }
  std::string library() const override { return std::string("Rueda ") + rueda_version(); }

  void sum(const Tensor& tensor, const Work& work) override {
    const Call call(tensor.data, RUEDA_F32, tensor.count, name_of(tensor, work), codec_of(work));
    check(rueda_allreduce(session_, &call.tensor, &call.tensor, RUEDA_SUM, &call.options));
  }
  void start(const Tensor& tensor, const Work& work) override {
    const Call call(tensor.data, RUEDA_F32, tensor.count, name_of(tensor, work), codec_of(work));
    running_.push_back(0);
    check(rueda_allreduce_async(session_, &call.tensor, &call.tensor, RUEDA_SUM, &call.options, &running_.back()));
  }
  // The sentence is copied before the handle goes.
  void finish() override {
    for (const rueda_handle handle : std::exchange(running_, {})) {
      const int32_t code = rueda_wait(handle, -1.0);
      const std::string sentence = code == RUEDA_OK ? "" : rueda_handle_error(handle);
      check(rueda_release(handle));
      if (code != RUEDA_OK) throw std::runtime_error(sentence);
    }
  }
  double max(double value) override { return reduced(value, RUEDA_MAX, "max"); }
  double total(double value) override { return reduced(value, RUEDA_SUM, "total"); }

  std::byte* allocate_shared(size_t bytes) override {
    rueda_memory memory{};
    memory.struct_size = sizeof memory;
    check(rueda_memory_allocate(session_, bytes, &memory));
    if (memory.shared == 0) {
      rueda_memory_free(memory.data);
      throw std::runtime_error("rank " + std::to_string(rank()) + " shares no memory with another rank of its host");
    }
    std::memset(memory.data, 0, memory.bytes);
    return static_cast<std::byte*>(memory.data);
  }
  void free_shared(std::byte* memory) override { rueda_memory_free(memory); }

 private:
  /// The arguments of one operation; they point into it.
  struct Call {
    Call(void* data, int32_t dtype, size_t count, const std::string& name, int32_t codec)
        : shape(static_cast<int64_t>(count)) {
      tensor.struct_size = sizeof tensor;
      tensor.data = data;
      tensor.dtype = dtype;
      tensor.dimensions = 1;
      tensor.shape = &shape;
      options.struct_size = sizeof options;
      options.name = name.c_str();
      options.codec = codec;
    }
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;
    int64_t shape;
    rueda_tensor tensor{};
    rueda_op_options options{};
  };

  const std::string& name_of(const Tensor& tensor, const Work& work) {
    std::vector<std::string>& names = names_[work.name];
    while (names.size() <= tensor.index) names.push_back(work.name + "." + std::to_string(names.size()));
    return names[tensor.index];
  }
  double reduced(double value, int32_t op, const std::string& name) {
    const Call call(&value, RUEDA_F64, 1, name, RUEDA_CODEC_NONE);
    check(rueda_allreduce(session_, &call.tensor, &call.tensor, op, &call.options));
    return value;
  }

  rueda_session* session_ = nullptr;
  std::map<std::string, std::vector<std::string>> names_;
  std::vector<rueda_handle> running_;
};

}  // namespace

std::unique_ptr<Ranks> join_job() { return std::make_unique<RuedaRanks>(); }

}  // namespace rueda::compare
