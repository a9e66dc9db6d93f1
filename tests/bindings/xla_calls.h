#pragma once
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

extern "C" {
#include "bindings/jax/call.h"
#include "bindings/jax/handler.h"
}

/// A future as XLA's table of functions makes it. Any thread.
struct xla_future {
  std::mutex mutex;
  std::condition_variable changed;
  int completed = 0;  ///< how often; once is right
  xla_error* error = nullptr;
};

/// An error as XLA's table of functions makes it.
struct xla_error {
  std::string message;
  int32_t code;
};

/// What XLA tells of a call besides its frame: here the number of its device.
struct xla_context {
  int32_t device = 0;
};

namespace rueda::test {

/// What versions of XLA differ in.
enum class Xla { kWithoutFutures, kWithFutures, kWithFuturesAndDevices };

/// The table of functions of such an XLA, version 0.1. Lives as long as the program.
const xla_api* xla_of(Xla version);

/// How a call ended: no code if it succeeded.
struct XlaEnding {
  std::optional<int32_t> code;
  std::string message;
};

/// One call of the handler, as XLA makes it: dense tensors, and attributes that are scalars or texts. One thread.
class XlaCall {
 public:
  explicit XlaCall(Xla version, int32_t device = 0);
  XlaCall(const XlaCall&) = delete;  // the frame points into it
  XlaCall& operator=(const XlaCall&) = delete;

  void add(std::vector<float>& input, std::vector<float>& output);
  void add(std::vector<float>& input, std::vector<float>& output, int32_t input_type, std::vector<int64_t> input_shape,
           std::vector<int64_t> output_shape);
  void set(const std::string& name, int64_t value);
  void set(const std::string& name, double value);
  void set(const std::string& name, const std::string& text);

  /// For what a test breaks.
  xla_frame& frame();
  /// Calls the handler. Returns how it ended if it has ended with the call.
  std::optional<XlaEnding> start();
  /// Waits for the future that start() was given.
  XlaEnding wait();
  /// start(), and wait() if that is still needed.
  XlaEnding run();

 private:
  struct Buffer {
    xla_buffer buffer;
    std::vector<int64_t> shape;
  };
  struct Attribute {
    std::string name, text;
    int64_t number = 0;
    double factor = 0;
    xla_span name_span{}, text_span{};
    xla_scalar scalar{};
  };
  void point();
  Attribute& attribute(const std::string& name, int32_t type);

  xla_context context_;
  std::deque<Buffer> inputs_, outputs_;
  std::deque<Attribute> attributes_;
  std::vector<xla_buffer*> input_items_, output_items_;
  std::vector<int32_t> attribute_types_;
  std::vector<xla_span*> attribute_names_;
  std::vector<void*> attribute_items_;
  xla_frame frame_{};
};

}  // namespace rueda::test
