// Trains a multilayer perceptron on handwritten digits. Each rank trains on its shard of the images, and the optimizer
// averages the gradients over all ranks. All ranks draw the same shuffle, so shards never overlap.
//   hvdrun -np 2 train_digits
#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <exception>
#include <iterator>
#include <numeric>
#include <random>
#include <stdexcept>
#include <vector>

#include "command_line.h"
#include "digits.h"
#include "perceptron.h"
#include "rueda.hpp"
#include "sgd.h"

namespace {

constexpr size_t kBatch = 32;   // images of one rank in one step
constexpr float kRate = 0.04F;  // for one rank; multiplied by the size, reached after kWarmUpEpochs
constexpr double kWarmUpEpochs = 3;
constexpr float kMomentum = 0.9F;
constexpr std::array<size_t, 4> kWidths = {Digits::kPixels, 128, 64, Digits::kClasses};

using Optimizer = rueda::DistributedOptimizer<Sgd>;

// The step grows with the batch, but only after a few epochs at a small step (warm-up, Goyal et al., 2017). It then
// shrinks to zero, so that the result does not depend on the last few batches.
float learning_rate(double epoch, int epochs, int size) {
  const double warm = 1.0 + (size - 1) * std::min(1.0, epoch / kWarmUpEpochs);
  const double left = 1.0 - epoch / epochs;
  return static_cast<float>(static_cast<double>(kRate) * warm * left);
}

// Returns the order of all training images in this epoch, the same on all ranks.
std::vector<size_t> shuffled(size_t count, uint32_t seed, int epoch) {
  std::vector<size_t> order(count);
  std::iota(order.begin(), order.end(), size_t{0});
  std::seed_seq seeds{seed, static_cast<uint32_t>(epoch)};
  std::mt19937 random(seeds);
  std::shuffle(order.begin(), order.end(), random);
  return order;
}

// Makes one pass over this rank's shard and returns the mean loss over all ranks. All ranks make the same number of
// steps, because each step is a collective operation.
double train_epoch(const rueda::Session& session, Optimizer& optimizer, Perceptron& model, const Digits& train,
                   const std::vector<size_t>& order, int epoch, int epochs) {
  const auto size = static_cast<size_t>(session.size());
  const size_t steps = train.count() / (kBatch * size);
  double loss = 0;
  for (size_t step = 0; step < steps; ++step) {
    const auto first =
        order.begin() + static_cast<std::ptrdiff_t>((step * size + static_cast<size_t>(session.rank())) * kBatch);
    const Digits batch = train.pick(std::vector<size_t>(first, first + kBatch));
    optimizer->set_learning_rate(
        learning_rate(epoch + static_cast<double>(step) / static_cast<double>(steps), epochs, session.size()));
    optimizer.zero_grad();
    model.forward(batch.pixels, batch.count());
    loss += model.backward(batch.labels, [&](size_t parameter) { optimizer.gradient_ready(parameter); });
    optimizer.step();
  }
  std::array<double, 1> mean = {loss / static_cast<double>(steps * kBatch)};
  session.allreduce(mean, {.name = "loss", .codec = rueda::Codec::kNone});
  return mean[0];
}

// Each rank tests its share of the test images; an all-reduce sums the counts.
int64_t count_correct(const rueda::Session& session, Perceptron& model, const Digits& test) {
  std::vector<size_t> share;
  for (auto i = static_cast<size_t>(session.rank()); i < test.count(); i += static_cast<size_t>(session.size()))
    share.push_back(i);
  const Digits images = test.pick(share);
  std::array<int64_t, 1> correct = {static_cast<int64_t>(model.correct(images.pixels, images.labels))};
  session.allreduce(correct, {.op = rueda::ReduceOp::kSum, .name = "correct"});
  return correct[0];
}

// Returns FNV-1a over the bits of all parameters. Equal hashes show that the ranks have not drifted apart.
uint64_t hash(Perceptron& model) {
  uint64_t value = 0xcbf29ce484222325;
  for (const Parameter& parameter : model.parameters()) {
    for (const std::byte byte : std::as_bytes(parameter.value))
      value = (value ^ std::to_integer<uint64_t>(byte)) * 0x100000001b3;
  }
  return value;
}

void train(const CommandLine& line) {
  const SplitDigits digits = split(read_digits(line.data));
  rueda::Session session;
  const size_t most = digits.train.count() / kBatch;
  if (static_cast<size_t>(session.size()) > most) {
    throw std::runtime_error(std::to_string(session.size()) + " ranks are more than the " + std::to_string(most) +
                             " batches of an epoch");
  }
  Perceptron model(kWidths, line.seed + static_cast<uint32_t>(session.rank()));
  Optimizer optimizer(session, Sgd(model, kMomentum),
                      {.compression = line.fp16 ? rueda::Codec::kFp16 : rueda::Codec::kDefault});
  optimizer.broadcast_parameters(0);
  optimizer.broadcast_optimizer_state(0);
  int64_t correct = 0;
  for (int epoch = 0; epoch < line.epochs; ++epoch) {
    const auto order = shuffled(digits.train.count(), line.seed, epoch);
    const double loss = train_epoch(session, optimizer, model, digits.train, order, epoch, line.epochs);
    correct = count_correct(session, model, digits.test);
    if (session.rank() != 0) continue;
    std::printf("epoch %d/%d: loss %.4f, test accuracy %.4f\n", epoch + 1, line.epochs, loss,
                static_cast<double>(correct) / static_cast<double>(digits.test.count()));
    std::fflush(stdout);
  }
  if (session.rank() == 0) {
    std::printf("test accuracy %.4f (%lld of %zu images), %d ranks\n",
                static_cast<double>(correct) / static_cast<double>(digits.test.count()),
                static_cast<long long>(correct), digits.test.count(), session.size());
  }
  std::printf("rank %d: parameters %016llx\n", session.rank(), static_cast<unsigned long long>(hash(model)));
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const CommandLine line = read_command_line(argc, argv);
    if (line.help) {
      std::fputs(kUsage, stdout);
      return 0;
    }
    train(line);
    return 0;
  } catch (const std::invalid_argument& error) {
    std::fprintf(stderr, "train_digits: %s\n%s", error.what(), kUsage);
    return 2;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "train_digits: %s\n", error.what());
    return 1;
  }
}
