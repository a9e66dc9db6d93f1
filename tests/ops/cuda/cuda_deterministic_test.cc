// In deterministic mode all-reduces on GPUs have the bits that the host gives, and stay on the GPUs. GPUs and NCCL are
// stand-ins.
#include <catch2/catch.hpp>
#include <random>

#include "runtime/base/half.h"
#include "tests/ops/cuda/nccl.h"
#include "tests/support/scale.h"

namespace rueda::test {
namespace {

using core::Dtype;
using Bytes = std::vector<std::byte>;

/// How a group of tensors is reduced.
struct Reduction {
  int32_t dtype = RUEDA_F32;
  int32_t op = RUEDA_SUM;
  int32_t codec = RUEDA_CODEC_NONE;
  double prescale = 1;
  double postscale = 1;
  std::string name() const {
    return std::string(core::name_of(static_cast<Dtype>(dtype))) + ", operator " + std::to_string(op) + ", codec " +
           std::to_string(codec) + ", " + std::to_string(prescale) + ", " + std::to_string(postscale);
  }
};

/// Numbers whose sum depends on the order: of many magnitudes, and of the integers any.
Bytes numbers_of(Dtype dtype, int64_t count, int rank) {
  std::mt19937 draw(static_cast<unsigned>(rank * 1000 + count));
  const Dtype part = core::part_of(dtype);
  const size_t size = core::size_of(part);
  Bytes memory(static_cast<size_t>(count) * core::size_of(dtype));
  for (size_t at = 0; at < memory.size(); at += size) {
    const auto put = [&](auto value) { std::memcpy(memory.data() + at, &value, size); };
    const float value = static_cast<float>(static_cast<int>(draw() % 2000) - 1000) / 7.0f * (draw() % 9 == 0 ? 64 : 1);
    switch (part) {
      case Dtype::kF16: put(core::f32_to_f16(value).bits); break;
      case Dtype::kBf16: put(core::f32_to_bf16(value).bits); break;
      case Dtype::kF32: put(value); break;
      case Dtype::kF64: put(static_cast<double>(value) / 3); break;
      case Dtype::kBool: put(static_cast<uint8_t>(draw() % 2)); break;
      default: put(uint64_t{draw()} << 32 | draw()); break;
    }
  }
  return memory;
}

/// The same tensors on a GPU and on the host, reduced as a group on both.
class Twins {
 public:
  Twins(int rank, const Reduction& how, const std::vector<int64_t>& counts)
      : how_(how), dtype_(static_cast<Dtype>(how.dtype)), shapes_(counts), stream_(rank) {
    for (int64_t& count : shapes_) {
      host_.push_back(numbers_of(dtype_, count, rank));
      gpu_.push_back(std::make_unique<GpuMemory<std::byte>>(host_.back()));
      const CTensor tensor(gpu_.back()->data(), how.dtype, {count});
      on_gpu_.push_back(*tensor.get());
      on_gpu_.back().shape = &count;
      on_host_.push_back(on_gpu_.back());
      on_host_.back().data = host_.back().data();
      on_gpu_.back().device = RUEDA_DEVICE_CUDA;
      on_gpu_.back().device_index = rank;
    }
  }
  Twins(const Twins&) = delete;
  Twins& operator=(const Twins&) = delete;
  void reduce_on_gpu(rueda_session* session) { reduce(session, on_gpu_, "on the GPU"); }
  void expect_as_on_host(rueda_session* session) {
    reduce(session, on_host_, "on the host");
    for (size_t i = 0; i < host_.size(); ++i) {
      expect(gpu_[i]->values() == host_[i], how_.name() + ": " + std::to_string(shapes_[i]) + " elements differ");
    }
  }

 private:
  void reduce(rueda_session* session, std::vector<rueda_tensor>& tensors, const char* name) {
    rueda_op_options options = on_stream(name, stream_.get());
    options.codec = how_.codec;
    options.has_scale = 1;
    options.prescale = how_.prescale;
    options.postscale = how_.postscale;
    expect_code(
        rueda_grouped_allreduce(session, tensors.size(), tensors.data(), tensors.data(), nullptr, how_.op, &options),
        RUEDA_OK, how_.name() + " " + name);
  }

  const Reduction how_;
  const Dtype dtype_;
  std::vector<int64_t> shapes_;
  const GpuStream stream_;
  std::vector<Bytes> host_;
  std::vector<std::unique_ptr<GpuMemory<std::byte>>> gpu_;
  std::vector<rueda_tensor> on_gpu_;
  std::vector<rueda_tensor> on_host_;
};

/// All lengths to 33 in one batch.
std::vector<int64_t> short_lengths() {
  std::vector<int64_t> all;
  for (int64_t count = 0; count <= 33; ++count) all.push_back(count);
  return all;
}

std::vector<Reduction> reductions_of(Dtype dtype) {
  std::vector<Reduction> all;
  const auto number = static_cast<int32_t>(dtype);
  const bool is_complex = core::is_complex(dtype);
  for (const int32_t op : {RUEDA_SUM, RUEDA_AVERAGE, RUEDA_PRODUCT, RUEDA_MIN, RUEDA_MAX}) {
    if ((is_complex && op >= RUEDA_MIN && op != RUEDA_PRODUCT) || (dtype == Dtype::kBool && op == RUEDA_AVERAGE))
      continue;
    all.push_back({number, op});
    all.push_back({number, op, RUEDA_CODEC_NONE, -0.5, 0.7});
    if (dtype != Dtype::kF32 && dtype != Dtype::kF64) continue;
    all.push_back({number, op, RUEDA_CODEC_FP16, 0.5, 1.0});
    all.push_back({number, op, RUEDA_CODEC_BF16, 1.0, 0.7});
  }
  return all;
}

/// Runs the ranks in deterministic mode. The process has no threads that read the environment.
void in_order(std::span<const std::string> hosts, const std::function<void(rueda_session* session, int rank)>& body) {
  use_nccl();
  ::unsetenv("RUEDA_HIERARCHICAL_ALLREDUCE");  // other cases of the process set it
  ::setenv("RUEDA_DETERMINISTIC", "1", 1);
  try {
    run_ranks(hosts, body);
  } catch (...) {
    ::unsetenv("RUEDA_DETERMINISTIC");
    throw;
  }
  ::unsetenv("RUEDA_DETERMINISTIC");
}

const std::vector<std::string> kTwo = {"a", "a"};
const std::vector<std::string> kThree = {"a", "a", "b"};
const std::vector<std::string> kFour = {"a", "b", "a", "b"};

TEST_CASE("in deterministic mode sums on GPUs have the host's bits, for each type, operator, codec and scale") {
  const std::vector<std::string>& hosts = *GENERATE(values({&kTwo, &kThree, &kFour}));
  in_order(hosts, [&](rueda_session* session, int rank) {
    long batches = 0;
    for (int number = 0; number < static_cast<int>(Dtype::kOpaque); ++number) {
      const size_t turn = static_cast<size_t>(number) + hosts.size();
      for (const Reduction& each : core::thinned(reductions_of(static_cast<Dtype>(number)), turn)) {
        Twins twins(rank, each, short_lengths());
        twins.reduce_on_gpu(session);
        twins.expect_as_on_host(session);
        const bool is_scaled_product =
            each.op == RUEDA_PRODUCT && each.postscale != 1.0 && (each.dtype == RUEDA_U16 || each.dtype == RUEDA_I16);
        if (!is_scaled_product) ++batches;
        expect(RUEDA_TEST_KERNELS == 0 || batches_by_nccl(session) == batches,
               each.name() + ": " + std::to_string(batches_by_nccl(session)) + " batches on GPUs, not " +
                   std::to_string(batches));
      }
    }
  });
  CHECK(use_nccl().counts().misuses == 0);
  CHECK(gpu().counts().wrong_kernels == 0);
}

TEST_CASE("in deterministic mode long tensors go in rounds, and a joined rank changes no bit") {
  in_order(kThree, [](rueda_session* session, int rank) {
    const Reduction sum{RUEDA_F32, RUEDA_SUM};
    Twins long_ones(rank, sum, {2'500'001, 3, 2'000'003});  // 18 MB, and a round has 16
    long_ones.reduce_on_gpu(session);
    long_ones.expect_as_on_host(session);
    if (rank == 1) return expect_code(rueda_join(session, nullptr, nullptr), RUEDA_OK, "join");
    for (const int32_t op : {RUEDA_SUM, RUEDA_MAX, RUEDA_MIN, RUEDA_PRODUCT, RUEDA_AVERAGE}) {
      Twins twins(rank, {RUEDA_F32, op}, {5, 1000});
      twins.reduce_on_gpu(session);
      twins.expect_as_on_host(session);
    }
    Twins pairs(rank, {RUEDA_COMPLEX64, RUEDA_PRODUCT}, {5, 1000});
    pairs.reduce_on_gpu(session);  // by the host
    pairs.expect_as_on_host(session);
    expect(batches_by_nccl(session) == (RUEDA_TEST_KERNELS != 0 ? 6 : 0), "the batches have gone another way");
    expect_code(rueda_join(session, nullptr, nullptr), RUEDA_OK, "join");
  });
  CHECK(gpu().counts().wrong_kernels == 0);
}

TEST_CASE("in deterministic mode a rank alone has the host's bits") {
  const std::vector<std::string> one = {"a"};
  in_order(one, [](rueda_session* session, int rank) {
    for (const Reduction& each : reductions_of(Dtype::kF32)) {
      Twins twins(rank, each, short_lengths());
      twins.reduce_on_gpu(session);
      twins.expect_as_on_host(session);
    }
  });
}

}  // namespace
}  // namespace rueda::test
