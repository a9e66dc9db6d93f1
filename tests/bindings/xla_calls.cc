// XLA's side of a custom call. The table has the length of the version that it stands for: a handler that read a field
// beyond it would read a pointer that is null.
#include "tests/bindings/xla_calls.h"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace rueda::test {
namespace {

xla_error* create_error(xla_error_create_args* args) { return new xla_error{args->message, args->code}; }

xla_error* create_future(xla_future_args* args) {
  args->future = new xla_future;
  return nullptr;
}

void complete(xla_future& future, xla_error* error) {
  const std::lock_guard lock(future.mutex);
  ++future.completed;
  future.error = error;
  future.changed.notify_all();  // under the lock: the waiter frees the future
}

xla_error* set_available(xla_future_args* args) {
  complete(*args->future, nullptr);
  return nullptr;
}

xla_error* set_error(xla_future_args* args) {
  complete(*args->future, args->error);
  return nullptr;
}

xla_error* get_ordinal(xla_ordinal_args* args) {
  args->ordinal = args->context->device;
  return nullptr;
}

xla_api table_of(Xla version) {
  xla_api api{};
  api.size = offsetof(xla_api, future_create);
  api.version = {sizeof(xla_version), nullptr, 0, 1};
  api.error_create = create_error;
  if (version == Xla::kWithoutFutures) return api;
  api.size = offsetof(xla_api, run_id_get);
  api.future_create = create_future;
  api.future_set_available = set_available;
  api.future_set_error = set_error;
  if (version == Xla::kWithFutures) return api;
  api.size = sizeof(xla_api);
  api.device_ordinal_get = get_ordinal;
  return api;
}

XlaEnding ending_of(xla_error* error) {
  XlaEnding ending{error->code, error->message};
  delete error;
  return ending;
}

}  // namespace

const xla_api* xla_of(Xla version) {
  static const xla_api tables[] = {table_of(Xla::kWithoutFutures), table_of(Xla::kWithFutures),
                                   table_of(Xla::kWithFuturesAndDevices)};
  return &tables[static_cast<size_t>(version)];
}

XlaCall::XlaCall(Xla version, int32_t device) : context_{device} {
  frame_.size = sizeof frame_;
  frame_.api = xla_of(version);
  frame_.context = &context_;
  frame_.stage = RUEDA_XLA_EXECUTE;
}

void XlaCall::add(std::vector<float>& input, std::vector<float>& output) {
  constexpr int32_t kF32 = 11;
  add(input, output, kF32, {static_cast<int64_t>(input.size())}, {static_cast<int64_t>(output.size())});
}

void XlaCall::add(std::vector<float>& input, std::vector<float>& output, int32_t input_type,
                  std::vector<int64_t> input_shape, std::vector<int64_t> output_shape) {
  for (auto [to, data, shape] :
       {std::tuple(&inputs_, input.data(), &input_shape), std::tuple(&outputs_, output.data(), &output_shape)}) {
    Buffer& added = to->emplace_back(Buffer{{}, std::move(*shape)});
    added.buffer = {sizeof(xla_buffer), nullptr, input_type, data, static_cast<int64_t>(added.shape.size()),
                    added.shape.data()};
  }
}

XlaCall::Attribute& XlaCall::attribute(const std::string& name, int32_t type) {
  Attribute& added = attributes_.emplace_back();
  added.name = name;
  added.name_span = {added.name.data(), added.name.size()};
  attribute_types_.push_back(type);
  attribute_names_.push_back(&added.name_span);
  return added;
}

void XlaCall::set(const std::string& name, int64_t value) {
  Attribute& added = attribute(name, RUEDA_XLA_SCALAR);
  added.number = value;
  added.scalar = {5, &added.number};
  attribute_items_.push_back(&added.scalar);
}

void XlaCall::set(const std::string& name, double value) {
  Attribute& added = attribute(name, RUEDA_XLA_SCALAR);
  added.factor = value;
  added.scalar = {12, &added.factor};
  attribute_items_.push_back(&added.scalar);
}

void XlaCall::set(const std::string& name, const std::string& text) {
  Attribute& added = attribute(name, RUEDA_XLA_STRING);
  added.text = text;
  added.text_span = {added.text.data(), added.text.size()};
  attribute_items_.push_back(&added.text_span);
}

void XlaCall::point() {
  input_items_.clear();
  output_items_.clear();
  for (Buffer& each : inputs_) input_items_.push_back(&each.buffer);
  for (Buffer& each : outputs_) output_items_.push_back(&each.buffer);
  frame_.inputs = {sizeof(xla_buffers), nullptr, static_cast<int64_t>(inputs_.size()), nullptr, input_items_.data()};
  frame_.outputs = {sizeof(xla_buffers), nullptr, static_cast<int64_t>(outputs_.size()), nullptr, output_items_.data()};
  frame_.attributes = {sizeof(xla_attributes),
                       nullptr,
                       static_cast<int64_t>(attributes_.size()),
                       attribute_types_.data(),
                       attribute_names_.data(),
                       attribute_items_.data()};
}

xla_frame& XlaCall::frame() {
  point();
  return frame_;
}

std::optional<XlaEnding> XlaCall::start() {
  if (frame_.inputs.items == nullptr) point();
  if (xla_error* error = rueda_jax_handler(&frame_); error != nullptr) return ending_of(error);
  if (frame_.future != nullptr) return std::nullopt;
  return XlaEnding{};
}

XlaEnding XlaCall::wait() {
  xla_future* future = std::exchange(frame_.future, nullptr);
  XlaEnding ending;
  {
    std::unique_lock lock(future->mutex);
    future->changed.wait(lock, [&] { return future->completed > 0; });
    if (future->completed > 1) ending = {-1, "the future was completed twice"};
    if (future->error != nullptr) ending = ending_of(future->error);
  }
  delete future;
  return ending;
}

XlaEnding XlaCall::run() {
  const std::optional<XlaEnding> ended = start();
  return ended.has_value() ? *ended : wait();
}

}  // namespace rueda::test
