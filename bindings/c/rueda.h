/* Rueda: collective communication for data-parallel training. The C API.
 *
 * A session is one rank of one job. Several may live in one process, also as ranks on threads. Every function may be
 * called from any thread, unless it says otherwise. No function exits, prints (logging apart), changes the environment,
 * installs a signal handler (unless the user names a signal in RUEDA_DUMP_SIGNAL) or touches the caller's CPU affinity;
 * what happens to a process that fails with a session open stands at rueda_shutdown. No C++ exception leaves the
 * library.
 *
 * Results: a function that can fail returns an error code, RUEDA_OK (0) on success. The sentence for the calling
 * thread's last failure is `rueda_last_error()`; that of an operation is `rueda_handle_error()`.
 *
 * Structs begin with `struct_size`, to be set to sizeof by the caller, so that fields can be added at their end.
 * Zero-initialise a struct, set `struct_size`, then the fields you need: zero is the default of every field.
 */
#ifndef RUEDA_H
#define RUEDA_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define RUEDA_API __attribute__((visibility("default")))

/* ---- Constants. Their values never change. ------------------------------------------------------------------- */

/* Error codes: each asks something else of the caller. */
enum {
  RUEDA_OK = 0,
  RUEDA_NOT_INITIALIZED = 1,  /* the session is NULL, not yet initialised, or was shut down before the call */
  RUEDA_INVALID_ARGUMENT = 2, /* the call is wrong as it stands; nothing was enqueued, no number was taken */
  RUEDA_MISMATCH = 3,         /* ranks submitted different things under one name; the session stays usable */
  RUEDA_PEER_LOST = 4,        /* a rank died; this session can only be shut down (and initialised again) */
  RUEDA_SHUT_DOWN = 5,        /* this rank or one the operation needs has shut down */
  RUEDA_TIMEOUT = 6,     /* a wait's timeout passed (the operation is still in flight) or an operation's limit did */
  RUEDA_INTERRUPTED = 7, /* a signal arrived while waiting; the operation is still in flight: wait again */
  RUEDA_SYSTEM = 8,      /* memory, descriptors or the network failed; the sentence says which */
  RUEDA_UNSUPPORTED = 9  /* this build or machine cannot do it; the sentence says what is missing */
};

/* Element types. */
enum {
  RUEDA_U8 = 0,
  RUEDA_I8 = 1,
  RUEDA_U16 = 2,
  RUEDA_I16 = 3,
  RUEDA_U32 = 4,
  RUEDA_I32 = 5,
  RUEDA_U64 = 6,
  RUEDA_I64 = 7,
  RUEDA_F16 = 8,  /* IEEE 754 binary16 */
  RUEDA_BF16 = 9, /* the upper half of binary32 */
  RUEDA_F32 = 10,
  RUEDA_F64 = 11,
  RUEDA_BOOL = 12,       /* one byte, 0 or 1 */
  RUEDA_COMPLEX64 = 13,  /* two binary32: real part, imaginary part; aligned like one of them */
  RUEDA_COMPLEX128 = 14, /* two binary64 */
  RUEDA_OPAQUE = 15      /* anything of rueda_tensor.element_bytes bytes: for operations that only move elements */
};

/* Reduction operators. Average divides the exact sum by the number of ranks; on integers it truncates toward zero.
 * Sum of bool is "or", product is "and"; min and max propagate NaN. Bitwise and, or and xor are for integers and bool;
 * complex numbers have sum, average and product. Adasum is an all-reduce of floats that adds what is orthogonal and
 * averages what is parallel, for each tensor on its own, over a tree of the ranks in their order (Maleki et al.:
 * Scaling Distributed Training with Adaptive Summation, MLSys 2021); codecs do not apply to it, and doubles whose
 * squares no double can hold become NaN. What is not defined is
 * INVALID_ARGUMENT at enqueue. */
enum {
  RUEDA_AVERAGE = 0,
  RUEDA_SUM = 1,
  RUEDA_ADASUM = 2,
  RUEDA_MIN = 3,
  RUEDA_MAX = 4,
  RUEDA_PRODUCT = 5,
  RUEDA_BAND = 6,
  RUEDA_BOR = 7,
  RUEDA_BXOR = 8
};

/* What an average divides by while ranks have joined: the number of the set's members, or of those that contributed. */
enum { RUEDA_OVER_MEMBERS = 0, RUEDA_OVER_CONTRIBUTORS = 1 };

/* Codecs: what elements travel as. A codec applies to f32 and f64 tensors (others travel as they are). The default is
 * RUEDA_COMPRESSION, else none. */
enum { RUEDA_CODEC_DEFAULT = 0, RUEDA_CODEC_NONE = 1, RUEDA_CODEC_FP16 = 2, RUEDA_CODEC_BF16 = 3 };

/* Where a tensor lives. */
enum { RUEDA_DEVICE_CPU = 0 /* further values are given out by device plug-ins */ };

/* Log levels. */
enum {
  RUEDA_LOG_TRACE = 0,
  RUEDA_LOG_DEBUG = 1,
  RUEDA_LOG_INFO = 2,
  RUEDA_LOG_WARNING = 3,
  RUEDA_LOG_ERROR = 4,
  RUEDA_LOG_FATAL = 5
};

/* The process set of all ranks. */
enum { RUEDA_GLOBAL_SET = 0 };

/* The peer of a receive: whoever sends. */
enum { RUEDA_ANY_SOURCE = -1 };

/* ---- Sessions ------------------------------------------------------------------------------------------------ */

typedef struct rueda_session rueda_session;

/* An operation in flight or finished: a number, never 0 for a live one, never reused within a process. */
typedef int64_t rueda_handle;

/* Through which ranks meet: a key-value store of the caller's. Functions return RUEDA_OK or an error code, may block
 * and are called on the thread that runs rueda_init, one at a time. `context` is handed back. */
typedef struct rueda_store {
  size_t struct_size;
  void* context;
  /* Writes `bytes` of `value` under `key` (NUL-terminated), replacing what was there. */
  int32_t (*set)(void* context, const char* key, const void* value, size_t bytes);
  /* Waits until `key` has a value, at most `timeout_seconds`; writes at most `capacity` bytes of it to `value` and its
   * full length to `*bytes`; RUEDA_TIMEOUT when it never came. Called again with a larger buffer if `*bytes` >
   * `capacity`. */
  int32_t (*get)(void* context, const char* key, void* value, size_t capacity, size_t* bytes, double timeout_seconds);
  /* Adds `amount` to the counter `key` (0 when absent) and writes the sum to `*sum`, atomically. */
  int32_t (*add)(void* context, const char* key, int64_t amount, int64_t* sum);
} rueda_store;

/* The ranks of a process set, in any order. */
typedef struct rueda_process_set {
  size_t struct_size;
  const int32_t* ranks; /* `count` of them, each once */
  size_t count;         /* at least 1 */
} rueda_process_set;

/* What rueda_init may be told; a field left 0 or NULL is read from the environment (hvdrun's, or another launcher's).
 * A process that finds nothing there is a job of one rank. */
typedef struct rueda_init_options {
  size_t struct_size;
  int32_t has_rank;         /* 1: `rank` and `size` below hold */
  int32_t rank;             /* 0 .. size-1 */
  int32_t size;             /* at least 1 */
  const rueda_store* store; /* NULL: the store at RUEDA_STORE_ADDR */
  const char* host_name;    /* ranks with the same name try to share memory; NULL: RUEDA_HOSTNAME, else the machine's */
  const void* job_key;      /* pre-shared key, `job_key_bytes` (at least 16) of it; NULL: RUEDA_JOB_KEY_FD, _FILE */
  size_t job_key_bytes;
  double timeout_seconds; /* how long to wait for all ranks; infinity: for ever; 0: RUEDA_INIT_TIMEOUT_SECONDS, 30 */
  const rueda_process_set* process_sets; /* made from the start: their numbers are 1, 2, ...; where ranks give others,
                                            or in another order, rueda_init fails with MISMATCH on all of them */
  size_t process_set_count;
  /* With one of these MPI says who is in the job (docs/guide/under-mpirun.md), and has_rank and store are 0. All ranks
   * give the same. */
  const void* mpi_comm; /* where an MPI_Comm lies: its ranks are the job's; read during the call. From Python: the
                           address that mpi4py's MPI._addressof(comm) gives. NULL: all that mpirun has started */
  const int32_t*
      ranks;         /* only these of them, `rank_count` ranks of the communicator in the order they have in the job */
  size_t rank_count; /* 0: all */
} rueda_init_options;

/* Joins the job and waits until all ranks have. On success `*session` is to be ended with rueda_shutdown. On failure
 * `*session` is NULL and rueda_init may be called again. `options` may be NULL. Blocks.
 * INVALID_ARGUMENT: options or a RUEDA_ variable; names it and its value. UNSUPPORTED: a plug-in that the settings ask
 * for is not there. TIMEOUT: names the ranks that never came. MISMATCH: builds or settings differ, with a table of who
 * has what. PEER_LOST: a rank of the job died meanwhile, as hvdrun saw it. SYSTEM: sockets, memory.
 * Over MPI it initialises MPI where nobody has, and finalises that at exit; where the program has, it wants
 * MPI_THREAD_MULTIPLE, and rueda_shutdown before MPI_Finalize. */
RUEDA_API int32_t rueda_init(const rueda_init_options* options, rueda_session** session);

/* Leaves the job: says goodbye behind everything this rank has submitted. What all ranks have submitted by then runs to
 * its end; what still needs this rank fails with RUEDA_SHUT_DOWN on the others. Rank 0 decides what every process set
 * runs, also those that it is no member of, and all need it: it leaves last. Bounded: 5 seconds in all, and then as
 * long as a callback of the caller's still runs: one that wants a lock which the caller of this holds never ends.
 * Operations of this session still in flight finish with RUEDA_SHUT_DOWN or with their result; their handles stay valid
 * until released, and keep some memory and a descriptor of the session. What it holds is freed but for a shell that
 * lets late calls fail with NOT_INITIALIZED; none may race with this one. NULL is fine. A process that exits with code
 * 0 without this call leaves by itself. One that exits with another code has failed: it ends without a goodbye, and
 * exit handlers that were registered before its first rueda_init do not run. Refused (INVALID_ARGUMENT) inside a
 * callback. */
RUEDA_API int32_t rueda_shutdown(rueda_session* session);

/* Queries: a value, or -1 with RUEDA_NOT_INITIALIZED in rueda_last_error_code(). */
RUEDA_API int32_t rueda_rank(const rueda_session* session);
RUEDA_API int32_t rueda_size(const rueda_session* session);
RUEDA_API int32_t rueda_local_rank(const rueda_session* session);
RUEDA_API int32_t rueda_local_size(const rueda_session* session);
RUEDA_API int32_t rueda_cross_rank(const rueda_session* session);
RUEDA_API int32_t rueda_cross_size(const rueda_session* session);
/* 1 if all hosts have the same number of ranks, else 0. */
RUEDA_API int32_t rueda_is_homogeneous(const rueda_session* session);
/* Ok while the session can take operations, else why it cannot (PEER_LOST, SHUT_DOWN, ...). */
RUEDA_API int32_t rueda_session_status(const rueda_session* session);

/* ---- Process sets -------------------------------------------------------------------------------------------- */

/* A process set is some of the job's ranks. An operation runs among the members of `rueda_op_options.process_set`; sets
 * may overlap, and disjoint ones get on at the same time. A set's number is this rank's own: it is not the same on all
 * ranks unless all make the same sets in the same order.
 *
 * Makes the set of `count` ranks. Called by its members alone or by all ranks, in any order among sets; never blocks.
 * `*set` can be used at once: operations wait until every member has asked for the same ranks. Members match by `name`
 * (at most 1024 bytes, UTF-8); where it is NULL by the ranks, and the first such set of one member is the first of the
 * others. A name stands for one list of ranks as long as the session: where ranks give two, every operation of these
 * sets fails with MISMATCH on all who asked, now or later. A name can be used again once this rank has removed the set;
 * rank 0 keeps about a kilobyte of each until the session ends, other ranks 150 bytes. An operation that is abandoned,
 * or times out, while its set waits for a member gives the set up, for all: remove it and add it again.
 * INVALID_ARGUMENT: no ranks, a rank twice or outside the job, a name in use, no UTF-8, or one that begins with
 * "rueda."; RUEDA_DYNAMIC_PROCESS_SETS=0. NOT_INITIALIZED, SHUT_DOWN, PEER_LOST: as named. */
RUEDA_API int32_t rueda_process_set_add(rueda_session* session, size_t count, const int32_t* ranks, const char* name,
                                        int32_t* set);
/* This rank uses the set no more, and its number is unknown from here on, also where other ranks have shut down or
 * died. Never blocks. What other members have submitted and needs this rank fails with MISMATCH. INVALID_ARGUMENT:
 * unknown, RUEDA_GLOBAL_SET, or operations of this rank are in flight in it. */
RUEDA_API int32_t rueda_process_set_remove(rueda_session* session, int32_t set);
/* How many members the set has, and this rank's place among them in ascending order; -1 with INVALID_ARGUMENT in
 * rueda_last_error_code() where the set is unknown, or this rank no member. */
RUEDA_API int32_t rueda_process_set_size(const rueda_session* session, int32_t set);
RUEDA_API int32_t rueda_process_set_rank(const rueda_session* session, int32_t set);
/* Writes at most `capacity` of the members, ascending, to `ranks`, and how many there are to `*count`. */
RUEDA_API int32_t rueda_process_set_ranks(const rueda_session* session, int32_t set, int32_t* ranks, size_t capacity,
                                          size_t* count);

/* ---- Operations ---------------------------------------------------------------------------------------------- */

/* Where and what the data is. Dense; `shape` has `dimensions` (0..16) entries, copied at enqueue. Row-major, unless
 * `order` says otherwise: for all-reduce, broadcast, reduce, send and receive it lists the dimensions from the
 * outermost in memory to the innermost, so that [0, 2, 3, 1] is an image whose channels lie together. It is agreed on
 * like the shape: where ranks differ, all get MISMATCH. An output lies as its input does. */
typedef struct rueda_tensor {
  size_t struct_size;
  void* data; /* aligned to its element; may be NULL if the tensor has no elements */
  int32_t dtype;
  int32_t dimensions;
  const int64_t* shape; /* may be NULL if `dimensions` is 0 (one element) */
  int32_t device;       /* RUEDA_DEVICE_CPU or a plug-in's */
  int32_t device_index;
  size_t element_bytes; /* with RUEDA_OPAQUE: at least 1, the same on all ranks; any alignment. Else not looked at */
  const int64_t* order; /* `dimensions` entries, each dimension once; NULL: row-major. Copied at enqueue */
} rueda_tensor;

/* Memory for an output whose place the caller did not give. Called once, on a thread of the library that runs nothing
 * else of the caller's; returns `bytes` bytes on `device`, usable on `stream`, aligned to 64, or NULL: then this rank's
 * operation fails with RUEDA_SYSTEM and the other ranks' succeed. */
typedef void* (*rueda_allocate)(void* context, size_t bytes, int32_t device, int32_t device_index, void* stream);

/* Called exactly once when an operation has finished, on the session's completer thread, one at a time, with no lock
 * held. `code` is the result; the error sentence is rueda_handle_error(handle) where the handle was not yet released.
 * Inside, enqueue, poll and release are allowed; wait, shutdown and blocking operations are refused with
 * INVALID_ARGUMENT. A C++ exception must not leave it; one that does is caught, logged and otherwise ignored. */
typedef void (*rueda_callback)(void* context, rueda_handle handle, int32_t code);

/* Options of one operation. NULL in their place means all defaults. */
typedef struct rueda_op_options {
  size_t struct_size;
  const char* name;     /* the same on all ranks; at most 1024 bytes, UTF-8; NULL: keyed by set, kind and call order */
  int32_t process_set;  /* RUEDA_GLOBAL_SET or one that this rank has made */
  int32_t codec;        /* RUEDA_CODEC_... */
  int32_t has_scale;    /* 1: the two factors below hold; else both are 1 */
  int32_t average_over; /* RUEDA_OVER_MEMBERS */
  double prescale;      /* multiplies the input; on integers in double, truncated */
  double postscale;     /* multiplies the sum */
  void* stream;         /* device tensors: the input is ready and the output used in this stream's order */
  rueda_callback callback; /* NULL: none */
  void* callback_context;
  rueda_allocate allocate; /* used where the output's data is NULL; NULL: the library owns the memory until release */
  void* allocate_context;
  int64_t name_id;        /* from rueda_intern, instead of `name`; 0: none */
  void* drain_context;    /* handed back in rueda_completion */
  int32_t drain;          /* 1: rueda_drain tells when it has finished; the blocking forms take no notice */
  int32_t more;           /* 1: others follow at once, see below; the blocking forms take no notice */
  double timeout_seconds; /* how long it may take, above 0, infinity: for ever; 0: RUEDA_TIMEOUT_SECONDS. See below */
} rueda_op_options;

/* An operation that not all ranks have submitted within its limit of time on one of them fails with TIMEOUT on all; one
 * that runs for longer ends the job's epoch. Ranks may give different limits. Looked at about once a second. A join has
 * none. */

/* `more` saves waking a thread of the library for each of many small operations, as MSG_MORE saves packets: what is
 * enqueued with it may stay here until this thread or another one enqueues without it, waits, polls or drains (a
 * look at the completion descriptor is no drain), and at most for about a second. It goes off earlier where the library
 * is awake anyway. Until then it is not submitted: wait for it, or enqueue without `more`, before rueda_shutdown. */

/* A number that stands for `name` in `rueda_op_options.name_id`, at least 1 and the same each time: enqueueing by it
 * neither measures, checks nor hashes the name. The name may still be given as text as well; other ranks need not
 * intern it. Numbers belong to the session and are kept until its end: intern the names that come again.
 * INVALID_ARGUMENT: an empty name, one of more than 1024 bytes, or no UTF-8. */
RUEDA_API int32_t rueda_intern(rueda_session* session, const char* name, int64_t* id);

/* The loan. Tensor data is lent to the library from enqueue until the handle completes, and a handle, failed or not,
 * completes only once the library does not touch the data any more. Structs, names and shapes are copied at enqueue.
 * After a failed in-place operation the contents are unspecified.
 *
 * Every enqueue: on success `*handle` is a live handle, to be given to rueda_release once. On failure nothing was
 * enqueued and `*handle` is 0:
 *
 *   INVALID_ARGUMENT: bad dtype, op, codec, root, set, shape, name; a name already in flight in the set; output and
 *   input of different shape or dtype, or overlapping without being equal; of a group that reduces or moves rows, two
 *   members of which one is written where the other lies (the same tensor twice, say).
 *   NOT_INITIALIZED, SHUT_DOWN, PEER_LOST: as named.
 *
 * How it ends (rueda_wait): MISMATCH where ranks differ, the same sentence on all of them; PEER_LOST; SHUT_DOWN;
 * TIMEOUT where RUEDA_TIMEOUT_SECONDS passed. */

/* Reduces `input` of all ranks, element by element, with `op`; every rank receives the same bits in `output`.
 * `output` may be the same tensor as `input` (in place). Its data may be NULL, see rueda_output. */
RUEDA_API int32_t rueda_allreduce_async(rueda_session* session, const rueda_tensor* input, const rueda_tensor* output,
                                        int32_t op, const rueda_op_options* options, rueda_handle* handle);

/* The same for `count` tensors as one group: accepted whole or not at all, reduced together, one handle.
 * `options->name` names the group: member i is "<name>.<i>"; `names`, if not NULL, gives each member's name instead.
 * Zero members are fine and complete at once; the most are 1048576. */
RUEDA_API int32_t rueda_grouped_allreduce_async(rueda_session* session, size_t count, const rueda_tensor* inputs,
                                                const rueda_tensor* outputs, const char* const* names, int32_t op,
                                                const rueda_op_options* options, rueda_handle* handle);

/* Reduces `input` of all ranks as rueda_allreduce does and gives each rank its rows of the result (dimension 0, which
 * there must be): dealt out in the order of ranks, as evenly as possible, the first ranks one row more. `output` has
 * the shape of the own rows and may be the place where they lie in `input` (in place). It may be NULL, or its data, see
 * rueda_output. */
RUEDA_API int32_t rueda_reducescatter_async(rueda_session* session, const rueda_tensor* input,
                                            const rueda_tensor* output, int32_t op, const rueda_op_options* options,
                                            rueda_handle* handle);
/* As a group, see rueda_grouped_allreduce_async; `outputs` may be NULL. */
RUEDA_API int32_t rueda_grouped_reducescatter_async(rueda_session* session, size_t count, const rueda_tensor* inputs,
                                                    const rueda_tensor* outputs, const char* const* names, int32_t op,
                                                    const rueda_op_options* options, rueda_handle* handle);

/* Copies `input` of `root` (a rank of the job, and a member) to `output` of all members of the set. On the root
 * `output` may equal `input`; elsewhere `input` is only looked at for its shape and dtype and may equal `output`. */
RUEDA_API int32_t rueda_broadcast_async(rueda_session* session, const rueda_tensor* input, const rueda_tensor* output,
                                        int32_t root, const rueda_op_options* options, rueda_handle* handle);

/* The same for `count` tensors as one group, see rueda_grouped_allreduce_async. */
RUEDA_API int32_t rueda_grouped_broadcast_async(rueda_session* session, size_t count, const rueda_tensor* inputs,
                                                const rueda_tensor* outputs, const char* const* names, int32_t root,
                                                const rueda_op_options* options, rueda_handle* handle);

/* Reduces `input` of all ranks as rueda_allreduce does, into `output` of `root`, which there may be the same tensor.
 * Elsewhere `output` is not looked at and may be NULL; on the root it may be too, or its data, see rueda_output. */
RUEDA_API int32_t rueda_reduce_async(rueda_session* session, const rueda_tensor* input, const rueda_tensor* output,
                                     int32_t op, int32_t root, const rueda_op_options* options, rueda_handle* handle);
/* As a group, see rueda_grouped_allreduce_async; `outputs` may be NULL. */
RUEDA_API int32_t rueda_grouped_reduce_async(rueda_session* session, size_t count, const rueda_tensor* inputs,
                                             const rueda_tensor* outputs, const char* const* names, int32_t op,
                                             int32_t root, const rueda_op_options* options, rueda_handle* handle);

/* The exchanges below move rows (steps of dimension 0, which there must be; all others are the same on all ranks) and
 * no rank needs to know how many the others have. What arrives lies in the order of ranks. `output` may be NULL, or its
 * data (dimension 0 is then not looked at): the memory comes from `options->allocate` or is the library's, and
 * rueda_output says where it is and how large. Given memory must not overlap the input and have just the shape that
 * arrives, else this rank's operation fails with INVALID_ARGUMENT, and its peers' succeed. Any dtype; the bits pass
 * unchanged; codec and scales do not apply. */

/* The rows of all ranks, on all ranks. */
RUEDA_API int32_t rueda_allgather_async(rueda_session* session, const rueda_tensor* input, const rueda_tensor* output,
                                        const rueda_op_options* options, rueda_handle* handle);
/* As a group, see rueda_grouped_allreduce_async; `outputs` may be NULL. */
RUEDA_API int32_t rueda_grouped_allgather_async(rueda_session* session, size_t count, const rueda_tensor* inputs,
                                                const rueda_tensor* outputs, const char* const* names,
                                                const rueda_op_options* options, rueda_handle* handle);

/* Rank r of the set gets the next `splits[r]` rows of every rank's input. `splits` has an entry for each rank and adds
 * up to the rows, else INVALID_ARGUMENT; NULL: the same for all, and the rows must be a multiple of the ranks.
 * rueda_received_splits says how many came from each rank. */
RUEDA_API int32_t rueda_alltoall_async(rueda_session* session, const rueda_tensor* input, const int64_t* splits,
                                       const rueda_tensor* output, const rueda_op_options* options,
                                       rueda_handle* handle);
/* As a group; `splits` and each list in it may be NULL, and `outputs` too. */
RUEDA_API int32_t rueda_grouped_alltoall_async(rueda_session* session, size_t count, const rueda_tensor* inputs,
                                               const int64_t* const* splits, const rueda_tensor* outputs,
                                               const char* const* names, const rueda_op_options* options,
                                               rueda_handle* handle);

/* The rows of all ranks, on `root`. Elsewhere there is no output, and `output` is not looked at. */
RUEDA_API int32_t rueda_gather_async(rueda_session* session, const rueda_tensor* input, const rueda_tensor* output,
                                     int32_t root, const rueda_op_options* options, rueda_handle* handle);
/* As a group; `outputs` may be NULL. */
RUEDA_API int32_t rueda_grouped_gather_async(rueda_session* session, size_t count, const rueda_tensor* inputs,
                                             const rueda_tensor* outputs, const char* const* names, int32_t root,
                                             const rueda_op_options* options, rueda_handle* handle);

/* Rank r of the set gets the next `splits[r]` rows of the root's input; NULL: dealt out as in rueda_reducescatter.
 * Elsewhere `splits` is not looked at, and `input`, or `output` where that is NULL, only for the dtype and the shape
 * beyond dimension 0. */
RUEDA_API int32_t rueda_scatter_async(rueda_session* session, const rueda_tensor* input, const int64_t* splits,
                                      const rueda_tensor* output, int32_t root, const rueda_op_options* options,
                                      rueda_handle* handle);
/* As a group; `splits` and each list in it may be NULL, and elsewhere than on the root `inputs` or `outputs` too. */
RUEDA_API int32_t rueda_grouped_scatter_async(rueda_session* session, size_t count, const rueda_tensor* inputs,
                                              const int64_t* const* splits, const rueda_tensor* outputs,
                                              const char* const* names, int32_t root, const rueda_op_options* options,
                                              rueda_handle* handle);

/* Sends `input` to rank `peer` of the job, which receives it under the same name with a tensor of the same dtype and
 * shape, else both get MISMATCH; nobody else takes part. Names belong to the two ranks and the direction, whatever the
 * process set, of which both must be members. Several of one name may be in flight: the first send meets the first
 * receive; so do those without a name. The data of the received tensor may be NULL, see rueda_output.
 * INVALID_ARGUMENT: the peer is this rank or no member.
 *
 * A receive from RUEDA_ANY_SOURCE takes what any other member of the process set sends under the name, a round trip to
 * rank 0 later; senders that wait take turns. Receives of one name keep their order where one message could be for
 * either, whatever their sets: those behind it begin once it has a sender. It fails with SHUT_DOWN when all others have
 * shut down. INVALID_ARGUMENT: as a group. */
RUEDA_API int32_t rueda_send_async(rueda_session* session, const rueda_tensor* input, int32_t peer,
                                   const rueda_op_options* options, rueda_handle* handle);
RUEDA_API int32_t rueda_recv_async(rueda_session* session, const rueda_tensor* output, int32_t peer,
                                   const rueda_op_options* options, rueda_handle* handle);
/* Who sent what a finished operation received, a rank of the job; of a send this rank. INVALID_ARGUMENT: no such
 * handle, of another kind, in flight, or a receive from any rank that failed before anybody had sent. */
RUEDA_API int32_t rueda_source(rueda_handle handle, int32_t* rank);
/* As a group, see rueda_grouped_allreduce_async, to or from one peer. */
RUEDA_API int32_t rueda_grouped_send_async(rueda_session* session, size_t count, const rueda_tensor* inputs,
                                           const char* const* names, int32_t peer, const rueda_op_options* options,
                                           rueda_handle* handle);
RUEDA_API int32_t rueda_grouped_recv_async(rueda_session* session, size_t count, const rueda_tensor* outputs,
                                           const char* const* names, int32_t peer, const rueda_op_options* options,
                                           rueda_handle* handle);

/* Completes on each rank after all members have called it and everything agreed before it in its set has run. */
RUEDA_API int32_t rueda_barrier_async(rueda_session* session, const rueda_op_options* options, rueda_handle* handle);

/* This rank has no more to give: until all members of the set have joined, it takes part in the others' operations
 * there with nothing. Sums and averages count it as nothing (an average still divides by all members, unless
 * `average_over` says otherwise); minimum, maximum, product and the bitwise operators ignore it: in all-reduce, reduce
 * and reduce-scatter, whose rows are dealt out as before. Barriers do not wait for it. What has no such contribution (a
 * broadcast, the exchanges, adasum, a prescaled product or band, a reduce whose root has joined) fails with MISMATCH on
 * the others and names who has joined. Sends are no operations of the set: they go on as before. What this rank
 * submitted before still has its contribution. Until the join ends, whatever this rank submits in that set is refused
 * (INVALID_ARGUMENT). When the last member has joined, it ends on all, and unnamed operations count on from the set's
 * maximum. RUEDA_TIMEOUT_SECONDS does not limit it; rueda_abandon returns TIMEOUT at once and lets it go on. Of the
 * options only `process_set`, the callback and `drain` count. */
RUEDA_API int32_t rueda_join_async(rueda_session* session, const rueda_op_options* options, rueda_handle* handle);
/* Enqueues, waits, releases; `*last_rank`, if not NULL, is the rank (of the job) that joined last. */
RUEDA_API int32_t rueda_join(rueda_session* session, const rueda_op_options* options, int32_t* last_rank);
/* The rank that joined last, of a finished join. INVALID_ARGUMENT: no such handle, no join, in flight, or failed. */
RUEDA_API int32_t rueda_last_joined(rueda_handle handle, int32_t* rank);

/* Blocking forms: enqueue, wait, release in one; the fastest way for one small tensor. Interrupted by a signal they
 * wait on. A callback in `options` is called as well. Outputs that the library would own are refused: nothing would
 * keep them. */
RUEDA_API int32_t rueda_allreduce(rueda_session* session, const rueda_tensor* input, const rueda_tensor* output,
                                  int32_t op, const rueda_op_options* options);
RUEDA_API int32_t rueda_grouped_allreduce(rueda_session* session, size_t count, const rueda_tensor* inputs,
                                          const rueda_tensor* outputs, const char* const* names, int32_t op,
                                          const rueda_op_options* options);
RUEDA_API int32_t rueda_reducescatter(rueda_session* session, const rueda_tensor* input, const rueda_tensor* output,
                                      int32_t op, const rueda_op_options* options);
RUEDA_API int32_t rueda_grouped_reducescatter(rueda_session* session, size_t count, const rueda_tensor* inputs,
                                              const rueda_tensor* outputs, const char* const* names, int32_t op,
                                              const rueda_op_options* options);
RUEDA_API int32_t rueda_broadcast(rueda_session* session, const rueda_tensor* input, const rueda_tensor* output,
                                  int32_t root, const rueda_op_options* options);
RUEDA_API int32_t rueda_grouped_broadcast(rueda_session* session, size_t count, const rueda_tensor* inputs,
                                          const rueda_tensor* outputs, const char* const* names, int32_t root,
                                          const rueda_op_options* options);
RUEDA_API int32_t rueda_reduce(rueda_session* session, const rueda_tensor* input, const rueda_tensor* output,
                               int32_t op, int32_t root, const rueda_op_options* options);
RUEDA_API int32_t rueda_grouped_reduce(rueda_session* session, size_t count, const rueda_tensor* inputs,
                                       const rueda_tensor* outputs, const char* const* names, int32_t op, int32_t root,
                                       const rueda_op_options* options);
RUEDA_API int32_t rueda_allgather(rueda_session* session, const rueda_tensor* input, const rueda_tensor* output,
                                  const rueda_op_options* options);
RUEDA_API int32_t rueda_grouped_allgather(rueda_session* session, size_t count, const rueda_tensor* inputs,
                                          const rueda_tensor* outputs, const char* const* names,
                                          const rueda_op_options* options);
RUEDA_API int32_t rueda_alltoall(rueda_session* session, const rueda_tensor* input, const int64_t* splits,
                                 const rueda_tensor* output, const rueda_op_options* options);
RUEDA_API int32_t rueda_grouped_alltoall(rueda_session* session, size_t count, const rueda_tensor* inputs,
                                         const int64_t* const* splits, const rueda_tensor* outputs,
                                         const char* const* names, const rueda_op_options* options);
RUEDA_API int32_t rueda_gather(rueda_session* session, const rueda_tensor* input, const rueda_tensor* output,
                               int32_t root, const rueda_op_options* options);
RUEDA_API int32_t rueda_grouped_gather(rueda_session* session, size_t count, const rueda_tensor* inputs,
                                       const rueda_tensor* outputs, const char* const* names, int32_t root,
                                       const rueda_op_options* options);
RUEDA_API int32_t rueda_scatter(rueda_session* session, const rueda_tensor* input, const int64_t* splits,
                                const rueda_tensor* output, int32_t root, const rueda_op_options* options);
RUEDA_API int32_t rueda_grouped_scatter(rueda_session* session, size_t count, const rueda_tensor* inputs,
                                        const int64_t* const* splits, const rueda_tensor* outputs,
                                        const char* const* names, int32_t root, const rueda_op_options* options);
RUEDA_API int32_t rueda_send(rueda_session* session, const rueda_tensor* input, int32_t peer,
                             const rueda_op_options* options);
RUEDA_API int32_t rueda_recv(rueda_session* session, const rueda_tensor* output, int32_t peer,
                             const rueda_op_options* options);
RUEDA_API int32_t rueda_grouped_send(rueda_session* session, size_t count, const rueda_tensor* inputs,
                                     const char* const* names, int32_t peer, const rueda_op_options* options);
RUEDA_API int32_t rueda_grouped_recv(rueda_session* session, size_t count, const rueda_tensor* outputs,
                                     const char* const* names, int32_t peer, const rueda_op_options* options);
RUEDA_API int32_t rueda_barrier(rueda_session* session, const rueda_op_options* options);

/* ---- Handles ------------------------------------------------------------------------------------------------- */

/* Waits until the operation has finished and its output can be used on its stream; returns its result. May be called
 * any number of times, from several threads. `timeout_seconds` < 0: no timeout; 0: looks once.
 *
 *   TIMEOUT with rueda_poll still 0: the wait's timeout passed, the operation is in flight and can be waited for again.
 *   INTERRUPTED: a signal handler ran.
 *   INVALID_ARGUMENT: no such handle, or called inside a callback. */
RUEDA_API int32_t rueda_wait(rueda_handle handle, double timeout_seconds);
/* 1: finished, 0: in flight, -1: no such handle. Never blocks, never runs the engine. */
RUEDA_API int32_t rueda_poll(rueda_handle handle);
/* Gives the handle up. The operation, if still in flight, goes on, and the loan lasts until it has finished; its
 * callback still fires exactly once. INVALID_ARGUMENT: no such handle (released before). */
RUEDA_API int32_t rueda_release(rueda_handle handle);
/* Gets the data back early: returns once the library does not touch it any more. An operation that is in no batch yet
 * fails with RUEDA_TIMEOUT on all ranks; one that is running is waited for, and after `timeout_seconds` the job's epoch
 * is ended (PEER_LOST on all ranks). The handle is still to be released. Returns what rueda_wait would. */
RUEDA_API int32_t rueda_abandon(rueda_handle handle, double timeout_seconds);
/* The error sentence of a finished operation, "" if it succeeded or is in flight; valid until the handle's release. */
RUEDA_API const char* rueda_handle_error(rueda_handle handle);
/* The output of member `index` (0 unless grouped) of a finished operation, as the library or `allocate` placed it.
 * Memory the library owns is valid until the handle is released. `shape` in it is too. Set `output->struct_size`
 * before. */
RUEDA_API int32_t rueda_output(rueda_handle handle, size_t index, rueda_tensor* output);

/* The rows that a finished exchange received from each rank of the set, in the order of ranks; of a group those of all
 * its members, one after the other; nothing where it received none by its kind. `*count` says how many there are;
 * `splits` is written only where they fit its `capacity`. */
RUEDA_API int32_t rueda_received_splits(rueda_handle handle, int64_t* splits, size_t capacity, size_t* count);

/* ---- Completions in an event loop of the caller's ------------------------------------------------------------- */

/* The end of an operation that was enqueued with `drain`. `handle` is live, and still to be released. */
typedef struct rueda_completion {
  rueda_handle handle;
  void* context; /* the operation's `drain_context` */
  int32_t code;  /* what rueda_wait would return */
  int32_t reserved;
} rueda_completion;

/* A descriptor for poll, select or epoll: readable while there is something to drain, level-triggered. Do not read or
 * close it. The session's, the same each time, closed by rueda_shutdown: take it out of your loop before.
 * SYSTEM: no descriptor is left. */
RUEDA_API int32_t rueda_completion_fd(rueda_session* session, int32_t* fd);

/* Moves at most `capacity` ends to `out`, in the order in which the operations finished, and their number to `*count`.
 * Never blocks; allowed inside a callback. Each operation's end is told once, when its output may be read.
 *
 * A handle that is released is not told, whether its operation has finished or not: so `out` holds live handles only,
 * and a session whose completions nobody drains keeps no more of them than it has unreleased handles.
 * rueda_shutdown drops what was not drained; the handles stay valid, and rueda_wait still gives their results. */
RUEDA_API int32_t rueda_drain(rueda_session* session, rueda_completion* out, size_t capacity, size_t* count);

/* ---- Diagnosis ----------------------------------------------------------------------------------------------- */

/* What this rank has done since rueda_init, as a JSON object: tensors, bytes, batches, fusion factor, times, cache
 * hits, algorithms, memory held; docs/guide/diagnosis.md lists the fields. Cheap; counts what has happened by now.
 * `*bytes`: what the text takes with its NUL. It is written if `capacity` suffices, else nothing is: call again with a
 * larger buffer. `json` may be NULL where `capacity` is 0. */
RUEDA_API int32_t rueda_stats(const rueda_session* session, char* json, size_t capacity, size_t* bytes);

/* The flight record: the last 1024 tensors of this rank, with how far each has come and when. As JSON to `path` (every
 * {rank} in it replaced; else ".<rank>" is put behind it), or, where `path` is NULL, in a few lines to the log. Works
 * in every state of the session, also while other threads hang in it. SYSTEM: the file cannot be written. */
RUEDA_API int32_t rueda_dump(rueda_session* session, const char* path);

/* Says what the program is doing, for dumps and stall reports of any rank: writes a NUL-terminated text of at most
 * `capacity` bytes, such as "train.py:31 in load_batch". Called on a thread of the library, while other threads may be
 * stuck; must not call the library. Who wants to know waits for 1 s at most. NULL: nobody is asked. One that was
 * replaced may still be running; rueda_shutdown waits for it. */
typedef void (*rueda_activity_callback)(void* context, char* text, size_t capacity);
RUEDA_API int32_t rueda_set_activity_callback(rueda_session* session, rueda_activity_callback callback, void* context);

/* Begins to write a timeline: Chrome's trace format, a JSON array at every moment, for ui.perfetto.dev and for
 * `rueda-timeline summary`; docs/guide/diagnosis.md says what is in it. With a {rank} in `path` this rank writes its
 * own operations there; else rank 0's call has all ranks record and writes one file, and the calls of other ranks do
 * nothing. `mark_cycles` not 0: with each round of agreement that let a batch go. RUEDA_TIMELINE does the same at init.
 * A rank that records for itself is missing in a file for all. INVALID_ARGUMENT: no path, or a timeline is being
 * written; SYSTEM: the file cannot be made, or what has this name is no regular file. */
RUEDA_API int32_t rueda_start_timeline(rueda_session* session, const char* path, int32_t mark_cycles);
/* Ends it with what all ranks have recorded by now; waits 5 s at most for those that do not answer. Does nothing where
 * this rank writes none. rueda_shutdown does this too. SYSTEM: the file could not be written; TIMEOUT: its disk takes
 * longer, and what is missing still comes as far as the process lives. */
RUEDA_API int32_t rueda_stop_timeline(rueda_session* session);

/* ---- Errors, build, log -------------------------------------------------------------------------------------- */

/* Code and sentence of the calling thread's last failed call; valid until its next call. Never NULL. */
RUEDA_API int32_t rueda_last_error_code(void);
RUEDA_API const char* rueda_last_error(void);
/* "PEER_LOST" and so on; "?" for other numbers. */
RUEDA_API const char* rueda_error_name(int32_t code);

/* "1.0.0", and a JSON object: version, build id, compiler, protocol, kernels, rows, plug-ins found and why others were
 * not. */
RUEDA_API const char* rueda_version(void);
RUEDA_API const char* rueda_build_info(void);

/* Receives every log line at or above RUEDA_LOG_LEVEL instead of stderr; NULL: stderr again. Called on any thread, one
 * line at a time; must not call the library. Holds for the process. When rueda_set_log_callback returns, the one before
 * runs no more. */
typedef void (*rueda_log_callback)(void* context, int32_t level, const char* line);
RUEDA_API void rueda_set_log_callback(rueda_log_callback callback, void* context);

#ifdef __cplusplus
}
#endif
#endif
