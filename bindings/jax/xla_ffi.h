/* What this library knows of XLA's foreign function interface (FFI), version 0.x: the structs of a call, and the table
 * of functions through which a handler answers. No header of XLA is needed, so one binary serves every jaxlib.
 *
 * XLA only appends to these structs. `size` says how long a struct of XLA's is. A field of the table that is younger
 * than version 0.0 is used only if the table is long enough. */
#pragma once
#include <stddef.h>
#include <stdint.h>

enum { RUEDA_XLA_EXECUTE = 3 }; /* the stage of a call that has tensors */
enum { RUEDA_XLA_METADATA = 1 };

/* The codes of an error: those of absl::Status. */
enum {
  RUEDA_XLA_INVALID_ARGUMENT = 3,
  RUEDA_XLA_DEADLINE_EXCEEDED = 4,
  RUEDA_XLA_FAILED_PRECONDITION = 9,
  RUEDA_XLA_ABORTED = 10,
  RUEDA_XLA_UNIMPLEMENTED = 12,
  RUEDA_XLA_INTERNAL = 13,
  RUEDA_XLA_UNAVAILABLE = 14
};

typedef struct xla_extension {
  size_t size;
  int32_t type;
  struct xla_extension* next;
} xla_extension;

typedef struct {
  size_t size;
  void* extensions;
  int32_t major, minor;
} xla_version;

/* What a handler is asked for when XLA registers it. */
typedef struct {
  size_t size;
  xla_version version;
  uint32_t traits;
} xla_metadata;

typedef struct {
  xla_extension base;
  xla_metadata* metadata;
} xla_metadata_extension;

typedef struct xla_error xla_error;
typedef struct xla_future xla_future;
typedef struct xla_context xla_context;

typedef struct {
  size_t size;
  void* extensions;
  const char* message; /* copied */
  int32_t code;
} xla_error_create_args;

/* The arguments of create (an output), of set_available, and with `error` of set_error, which takes the error. */
typedef struct {
  size_t size;
  void* extensions;
  xla_future* future;
  xla_error* error;
} xla_future_args;

typedef struct {
  size_t size;
  void* extensions;
  xla_context* context;
  int32_t ordinal; /* an output */
} xla_ordinal_args;

/* The table. Fields that this library does not call have no type. */
typedef struct {
  size_t size;
  void* extensions;
  xla_version version;
  const void* internal;
  xla_error* (*error_create)(xla_error_create_args*);
  void *error_message, *error_destroy, *handler_register, *stream_get, *type_register, *context_get, *state_set;
  void *state_get, *memory_allocate, *memory_free, *pool_schedule, *pool_threads;
  xla_error* (*future_create)(xla_future_args*);
  xla_error* (*future_set_available)(xla_future_args*);
  xla_error* (*future_set_error)(xla_future_args*);
  void* run_id_get;
  xla_error* (*device_ordinal_get)(xla_ordinal_args*);
} xla_api;

/* Returns whether a call may return before its operation has finished. */
static inline int xla_has_futures(const xla_api* api) { return api->size >= offsetof(xla_api, run_id_get); }

/* Returns whether a call is told the number of its device. */
static inline int xla_has_ordinal(const xla_api* api) { return api->size >= sizeof(xla_api); }

typedef struct {
  const char* text; /* without a NUL at its end */
  size_t bytes;
} xla_span;

typedef struct {
  int32_t dtype;
  void* value;
} xla_scalar;

/* A dense tensor, row-major. */
typedef struct {
  size_t size;
  void* extensions;
  int32_t dtype;
  void* data;
  int64_t dimensions;
  const int64_t* shape;
} xla_buffer;

typedef struct {
  size_t size;
  void* extensions;
  int64_t count;
  const int32_t* types;
  xla_buffer** items;
} xla_buffers;

enum { RUEDA_XLA_SCALAR = 3, RUEDA_XLA_STRING = 4 }; /* the type of an attribute */

typedef struct {
  size_t size;
  void* extensions;
  int64_t count;
  const int32_t* types;
  xla_span** names;
  void** items;
} xla_attributes;

/* One call. XLA keeps the buffers alive until the handler returns, or until `future` is completed if it is set. */
typedef struct {
  size_t size;
  xla_extension* extensions;
  const xla_api* api;
  xla_context* context;
  int32_t stage;
  xla_buffers inputs;
  xla_buffers outputs;
  xla_attributes attributes;
  xla_future* future; /* an output, of versions with future_create */
} xla_frame;
