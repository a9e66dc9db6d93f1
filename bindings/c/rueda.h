/* Rueda: collective communication for data-parallel training. The C API.
 *
 * A session is one rank of one job. One process may hold several sessions, for example one on each of its threads. Any
 * thread may call any function unless the function says otherwise. No function exits, prints (the log apart), changes
 * the environment, installs a signal handler (unless RUEDA_DUMP_SIGNAL names a signal) or changes the CPU affinity of
 * the caller's threads for longer than a moment: on a host with more ranks than cores, a thread that waits is moved to
 * another one of its cores now and then (RUEDA_SPREAD_RANKS). rueda_shutdown says what happens to a process that exits
 * with a session open. No C++ exception leaves the library.
 *
 * Results: a function that can fail returns RUEDA_OK (0) or an error code; one that answers with a number returns -1 on
 * failure. rueda_last_error() is the sentence of the calling thread's last call, "" if that succeeded;
 * rueda_handle_error() is the sentence of an operation.
 *
 * Every struct except rueda_completion begins with `struct_size`, which the caller sets to sizeof, so that fields can
 * be added at their end. Fill a struct with zeros, set `struct_size`, then the fields you need: zero is the default of
 * every field. */
#ifndef RUEDA_H
#define RUEDA_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define RUEDA_API __attribute__((visibility("default")))

/* ---- Constants. Their values never change. ------------------------------------------------------------------- */

/* Error codes. Each asks the caller for a different reaction. */
enum {
  RUEDA_OK = 0,
  RUEDA_NOT_INITIALIZED = 1,  /* the session is NULL or was shut down before the call */
  RUEDA_INVALID_ARGUMENT = 2, /* the call is wrong. From an enqueue: nothing was enqueued. From a wait:
                               * this rank's output does not have the shape that arrived */
  RUEDA_MISMATCH = 3,         /* ranks submitted different things under one name; the session stays usable */
  RUEDA_PEER_LOST = 4,        /* a rank died; this session can only be shut down (and initialised again) or reset */
  RUEDA_SHUT_DOWN = 5,        /* this rank, or a rank that the operation needs, has shut down */
  RUEDA_TIMEOUT = 6,     /* a wait timed out (the operation is still in flight), or an operation exceeded its limit */
  RUEDA_INTERRUPTED = 7, /* a signal arrived during a wait; the operation is still in flight, so wait again */
  RUEDA_SYSTEM = 8,      /* memory, descriptors or the network failed; the sentence says which */
  RUEDA_UNSUPPORTED = 9, /* this build or machine cannot do it; the sentence says what is missing */
  RUEDA_REMOVED = 10     /* the job goes on without this worker: shut the session down and exit with code 0 */
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
  RUEDA_OPAQUE = 15      /* elements of rueda_tensor.element_bytes bytes, for operations that only move elements */
};

/* Reduction operators. Average divides the exact sum by the number of ranks; for integers it truncates toward zero.
 * The sum of bools is "or", their product is "and". Min and max propagate NaN. Bitwise and, or and xor accept integers
 * and bool. Complex numbers have sum, average and product. Adasum accepts floats in an all-reduce: it adds the parts of
 * gradients that are orthogonal and averages the parts that are parallel, for each tensor separately, over a tree of
 * the ranks in rank order (Maleki et al.: Scaling Distributed Training with Adaptive Summation, MLSys 2021). Codecs do
 * not apply to Adasum. Its result is NaN if the square of an input overflows a double. An undefined combination of
 * operator and type is refused at enqueue with INVALID_ARGUMENT. */
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

/* The divisor of an average while some ranks have joined: the number of members, or the number of contributors. */
enum { RUEDA_OVER_MEMBERS = 0, RUEDA_OVER_CONTRIBUTORS = 1 };

/* Codecs: the type in which elements travel. A codec applies to f32 and f64 tensors; all others travel as they are.
 * RUEDA_CODEC_DEFAULT means RUEDA_COMPRESSION if that is set, else none. */
enum { RUEDA_CODEC_DEFAULT = 0, RUEDA_CODEC_NONE = 1, RUEDA_CODEC_FP16 = 2, RUEDA_CODEC_BF16 = 3 };

/* The kind of memory that holds a tensor. */
enum {
  RUEDA_DEVICE_CPU = 0,
  RUEDA_DEVICE_CUDA = 1 /* librueda_cuda.so; other device plug-ins add further values */
};

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

/* The peer of a receive that accepts a message from any rank. */
enum { RUEDA_ANY_SOURCE = -1 };

/* ---- Sessions ------------------------------------------------------------------------------------------------ */

typedef struct rueda_session rueda_session;

/* An operation in flight or finished: a number, never 0 for a live one, never reused within a process. */
typedef int64_t rueda_handle;

/* A key-value store of the caller's, through which the ranks find each other. The functions return RUEDA_OK or an error
 * code. They may block. The library calls them on the thread that runs rueda_init, one at a time, with `context` as
 * their first argument. */
typedef struct rueda_store {
  size_t struct_size;
  void* context;
  /* Writes `bytes` bytes of `value` under `key` (NUL-terminated) and replaces an earlier value. */
  int32_t (*set)(void* context, const char* key, const void* value, size_t bytes);
  /* Waits until `key` has a value, at most `timeout_seconds`. Writes at most `capacity` bytes of it to `value` and its
   * full length to `*bytes`. Returns RUEDA_TIMEOUT if no value came. The library calls again with a larger buffer if
   * `*bytes` exceeds `capacity`. */
  int32_t (*get)(void* context, const char* key, void* value, size_t capacity, size_t* bytes, double timeout_seconds);
  /* Atomically adds `amount` to the counter `key` (0 if absent) and writes the sum to `*sum`. */
  int32_t (*add)(void* context, const char* key, int64_t amount, int64_t* sum);
  /* Removes `key` and its value; returns RUEDA_OK if the key is absent. NULL if the store cannot remove keys: then the
   * library writes empty values over what it no longer needs. */
  int32_t (*remove)(void* context, const char* key);
} rueda_store;

/* The ranks of a process set, in any order. */
typedef struct rueda_process_set {
  size_t struct_size;
  const int32_t* ranks; /* `count` ranks of the job, each once */
  size_t count;         /* at least 1 */
} rueda_process_set;

/* Options of rueda_init. A field left 0 or NULL takes its value from the environment that hvdrun or another launcher
 * has set. A process with no such environment is a job of one rank. */
typedef struct rueda_init_options {
  size_t struct_size;
  int32_t has_rank;         /* 1: `rank` and `size` below apply */
  int32_t rank;             /* 0 .. size-1 */
  int32_t size;             /* at least 1 */
  const rueda_store* store; /* NULL: the store at RUEDA_STORE_ADDR */
  const char* host_name;    /* ranks with equal names try to share memory; NULL: RUEDA_HOSTNAME, else the machine's */
  const void* job_key;      /* pre-shared key of `job_key_bytes` (at least 16) bytes; NULL: RUEDA_JOB_KEY_FD, _FILE */
  size_t job_key_bytes;
  double timeout_seconds; /* time to wait for all ranks; infinity: no limit; 0: RUEDA_INIT_TIMEOUT_SECONDS, 30 */
  const rueda_process_set* process_sets; /* sets that exist from the start, numbered 1, 2, ...; rueda_init
                                          * fails with MISMATCH on all ranks if their lists differ */
  size_t process_set_count;
  /* If one of the next three fields is set, MPI says which ranks form the job (docs/guide/under-mpirun.md); has_rank
   * and store must be 0. All ranks give the same values. */
  const void* mpi_comm; /* address of an MPI_Comm; its ranks form the job. Read during the call only. From Python,
                         * MPI._addressof(comm) of mpi4py. NULL: all ranks that mpirun has started */
  /* Only these `rank_count` ranks of the communicator, in the order of their ranks in the job. NULL: all. */
  const int32_t* ranks;
  size_t rank_count;    /* 0: all ranks */
  int32_t wait_outside; /* 1: in a worker that comes to an elastic job that runs already, rueda_init does not wait for
                         * the others, and does not interrupt them: see rueda_membership_info.waits. 0: it joins */
} rueda_init_options;

/* Joins the job and waits until all ranks have joined it. Blocks. On success, end `*session` with rueda_shutdown. On
 * failure `*session` is NULL, and rueda_init may be called again. `options` may be NULL.
 *
 *   INVALID_ARGUMENT: an option or a RUEDA_ variable is wrong; the sentence names it and its value.
 *   UNSUPPORTED: a plug-in that the settings ask for is missing.
 *   TIMEOUT: ranks never came; the sentence names them.
 *   MISMATCH: builds or settings differ; the sentence has a table of each rank's values.
 *   PEER_LOST: a rank of the job died meanwhile, as hvdrun reported.
 *   SYSTEM: sockets or memory failed.
 *
 * Over MPI, rueda_init initialises MPI if the program has not, and finalises MPI at exit. If the program has, MPI must
 * provide MPI_THREAD_MULTIPLE, and rueda_shutdown must come before MPI_Finalize. */
RUEDA_API int32_t rueda_init(const rueda_init_options* options, rueda_session** session);

/* Leaves the job. The goodbye is queued behind everything this rank has submitted: operations that all ranks have
 * submitted by then run to their end, and operations that still need this rank fail with SHUT_DOWN on the others. Rank
 * 0 decides what runs in every process set: its goodbye ends the job for all, and operations that are not agreed by
 * then fail with SHUT_DOWN on all ranks. Let it leave last. NULL is allowed.
 *
 * Waits for operations, and for the goodbye, for 5 seconds at most. The call takes longer while a callback of the
 * caller's runs, while a disk holds up a file of the library, and while a GPU's work and NCCL end
 * (docs/guide/on-gpus.md); under hvdrun up to 10 seconds longer if hvdrun does not answer. Deadlocks if a running
 * callback waits for a lock that the calling thread holds. No other call on the session may run at the same time.
 *
 * Operations still in flight finish with SHUT_DOWN or with their result. Their handles stay valid until released, and
 * hold some memory and a descriptor of the session until then. A small shell of the session remains, so that late calls
 * fail with NOT_INITIALIZED.
 *
 * A process that exits with code 0 without this call leaves in the same way. A process that exits with another code has
 * failed: it ends without a goodbye, and exit handlers that were registered before its first rueda_init do not run.
 * INVALID_ARGUMENT: called inside a callback, or while another thread is in rueda_reset. NOT_INITIALIZED: the session
 * was shut down before, or this process was forked after rueda_init. */
RUEDA_API int32_t rueda_shutdown(rueda_session* session);

/* Queries. Each returns -1 if the session is not initialised; rueda_last_error_code() is then NOT_INITIALIZED. */
RUEDA_API int32_t rueda_rank(const rueda_session* session);
RUEDA_API int32_t rueda_size(const rueda_session* session);
/* In an elastic job a worker keeps its local rank for life, so it may be above the local size. */
RUEDA_API int32_t rueda_local_rank(const rueda_session* session);
RUEDA_API int32_t rueda_local_size(const rueda_session* session);
RUEDA_API int32_t rueda_cross_rank(const rueda_session* session);
RUEDA_API int32_t rueda_cross_size(const rueda_session* session);
/* Returns 1 if all hosts have the same number of ranks, else 0. */
RUEDA_API int32_t rueda_is_homogeneous(const rueda_session* session);
/* Returns RUEDA_OK while the session accepts operations, else the reason (PEER_LOST, SHUT_DOWN, ...). */
RUEDA_API int32_t rueda_session_status(const rueda_session* session);

/* Ends the job's epoch on all ranks, for a program that knows of a failure which the library cannot see. Operations in
 * flight and later ones fail with PEER_LOST and a sentence that names this rank and `reason` (UTF-8, at most 1024
 * bytes; more is cut). Never blocks. Does nothing if the epoch is over already. In an elastic job, go on with
 * rueda_reset; else with rueda_shutdown. INVALID_ARGUMENT: no reason. */
RUEDA_API int32_t rueda_abort(rueda_session* session, const char* reason);

/* ---- Elastic jobs -------------------------------------------------------------------------------------------- */

/* An elastic job (hvdrun --min-np) goes on when workers die, leave or come. A worker is a process. hvdrun publishes
 * plans, numbered from 1: the workers that are members from now on, in rank order. A session is in one plan. Once a
 * member of the plan dies, the plan is over: its operations fail with PEER_LOST on all members. It is over as well once
 * a member calls rueda_reset; what has been agreed by then runs to its end on all members, for at most 5 seconds, and
 * the rest fails with PEER_LOST, or SHUT_DOWN if it needed a member that has left. Each of them then calls rueda_reset,
 * which joins the next plan in the same process and session. */

/* Options of rueda_reset. */
typedef struct rueda_reset_options {
  size_t struct_size;
  double timeout_seconds; /* time to wait for the next plan and for its members. Infinity or 0: hvdrun's limits decide.
                           * They end workers that do not come, and the job if too few are left. The members of a plan
                           * then have RUEDA_INIT_TIMEOUT_SECONDS to meet, and in addition the same again or
                           * --rejoin-timeout, whichever is longer */
} rueda_reset_options;

/* Leaves the plan, if the session is in one, and joins the next one: then rank, size, local rank and all connections
 * are new, and rueda_stats begins anew. `options` may be NULL. Blocks until all members of that plan have joined it. A
 * plan that ends meanwhile, because another member dies or does not come, leads to the one after it.
 *
 * If the plan that the session is in is not over, this ends it for all of its members: agree with them before.
 * Operations that rank 0 has heard of from all members finish first; all others of the old plan fail, as in
 * rueda_shutdown or with the reason why the plan is over. Their handles and outputs stay valid, and hold memory and
 * descriptors of the old plan until they are released; completions can still be drained.
 *
 * The completion descriptor, numbers of rueda_intern, the activity callback and memory of rueda_memory_allocate stay.
 * That memory is private from here on: it works in every operation, and only memory that is allocated now is shared.
 * Process sets of rueda_process_set_add are gone. Those of rueda_init are in ranks of plan 1, whenever a worker comes.
 * They keep their numbers, with the same workers, if all of these are in the new plan; else operations in the set fail
 * with INVALID_ARGUMENT and name a worker that has left. A newcomer is a member of none. A timeline ends with its plan;
 * that of RUEDA_TIMELINE goes on in a file of its own for each plan ("trace.json", "trace.plan2.json").
 *
 * Other calls on the session may run meanwhile: they fail with the reason why the old plan is over. After a failure the
 * session is as after the end of its plan: call rueda_reset again, or rueda_shutdown.
 *
 *   REMOVED: no plan has this worker any more. Call rueda_shutdown and exit with code 0.
 *   TIMEOUT: no plan came, or members did not come; the sentence names them.
 *   MISMATCH, SYSTEM: as rueda_init. SYSTEM also if hvdrun cannot be reached any more.
 *   PEER_LOST: hvdrun has ended the job; the sentence says why.
 *   INVALID_ARGUMENT: a negative timeout; called inside a callback, or while another thread is in rueda_reset.
 *   NOT_INITIALIZED: the session was shut down.
 *   UNSUPPORTED: the job is not elastic. */
RUEDA_API int32_t rueda_reset(rueda_session* session, const rueda_reset_options* options);

/* How a coming plan differs from the present one, as bits. */
enum { RUEDA_WORKERS_REMOVED = 1, RUEDA_WORKERS_ADDED = 2 };

/* Where the session stands, and what is coming. */
typedef struct rueda_membership_info {
  size_t struct_size;
  int64_t plan; /* the number of the plan that the session is in; 0: the job is not elastic */
  int32_t rank;
  int32_t size;
  int64_t notices;        /* how many notices of coming plans this job has had: the number grows with each */
  int64_t pending_plan;   /* the latest plan that a notice leads to and the session is not in; 0: none */
  int32_t pending;        /* what these plans change: RUEDA_WORKERS_REMOVED, RUEDA_WORKERS_ADDED, both, or 0 */
  int32_t newcomers;      /* workers that are ready to join with the latest of them */
  double removal_seconds; /* until hvdrun stops workers that the latest of them removes; 0: it stops none */
  int32_t holds_state;    /* 1: this worker has formed an earlier plan, so it has the training state; 0: it is new,
                           * or the plan is the first one */
  int32_t waits; /* 1: the session waits outside of the job, because rueda_init had wait_outside set. `plan` is then the
                  * plan that the others were in, and rank, size and so on are as they would be if this worker had come
                  * to it. The others go on meanwhile, however long this worker takes. Operations, new process sets and
                  * rueda_abort fail with INVALID_ARGUMENT. rueda_reset says that the worker is ready, and joins the
                  * next plan. The worker may also shut down; one that then exits before the job ends has failed */
} rueda_membership_info;

/* Fills `info`; set `info->struct_size` before the call. Marks all notices as read, see rueda_membership_fd. Never
 * blocks. A notice says that a plan is coming; it ends nothing. All members hear of it, not at the same moment: agree
 * (for example by an all-reduce of `pending` with RUEDA_BOR) before you call rueda_reset. */
RUEDA_API int32_t rueda_membership(rueda_session* session, rueda_membership_info* info);

/* A descriptor that is readable (level-triggered) while there is a notice that rueda_membership has not reported. Do
 * not read or close it. It belongs to the session, is the same each time, also after rueda_reset, and is closed by
 * rueda_shutdown. SYSTEM: no descriptor is left. UNSUPPORTED: the job is not elastic. */
RUEDA_API int32_t rueda_membership_fd(rueda_session* session, int32_t* fd);

/* The number of this worker: given to its process by hvdrun, never to another one. -1 on failure;
 * rueda_last_error_code() is then UNSUPPORTED if the job is not elastic. */
RUEDA_API int64_t rueda_worker_id(const rueda_session* session);
/* The same for the worker that has `rank` in the session's plan. INVALID_ARGUMENT: no such rank. */
RUEDA_API int64_t rueda_worker_at(const rueda_session* session, int32_t rank);
/* Returns 1 if the worker with this rank has formed an earlier plan, so that it has the training state; 0 if it
 * has not; -1 on failure, as rueda_worker_at. In every plan but the first, rank 0 has it. */
RUEDA_API int32_t rueda_holds_state(const rueda_session* session, int32_t rank);

/* ---- Process sets -------------------------------------------------------------------------------------------- */

/* A process set is a subset of the job's ranks. An operation runs among the members of
 * `rueda_op_options.process_set`. Sets may overlap; disjoint sets make progress independently. A set's number belongs
 * to this rank: ranks share numbers only if all of them make the same sets in the same order.
 *
 * Makes the set of `count` ranks and writes its number to `*set`. Never blocks. Members alone may call it, or all
 * ranks, with the sets in any order. The set can be used at once: its operations wait until every member has asked for
 * it. Members match by `name` (at most 1024 bytes, UTF-8), or by the list of ranks if `name` is NULL; then the first
 * such set of one member is the first of the others.
 *
 * A name stands for one list of ranks as long as the session lives. If ranks give two lists, every operation of these
 * sets fails with MISMATCH on all ranks that asked, now and later. This rank may use a name again once it has removed
 * the set. Rank 0 keeps about a kilobyte for each name until the session ends, the other ranks 150 bytes. If an
 * operation is abandoned or times out while its set waits for a member, the set is given up for all ranks: remove it
 * and add it again.
 *
 *   INVALID_ARGUMENT: no ranks; a rank twice or outside the job; a name that is in use, is not UTF-8 or begins with
 *   "rueda."; RUEDA_DYNAMIC_PROCESS_SETS=0.
 *   NOT_INITIALIZED, SHUT_DOWN, PEER_LOST: as the error codes say. */
RUEDA_API int32_t rueda_process_set_add(rueda_session* session, size_t count, const int32_t* ranks, const char* name,
                                        int32_t* set);
/* This rank stops using the set; its number is unknown from here on, even if other ranks have shut down or died. Never
 * blocks. Operations that other members have submitted and that need this rank fail with MISMATCH.
 * INVALID_ARGUMENT: the set is unknown or RUEDA_GLOBAL_SET, or operations of this rank are in flight in it. */
RUEDA_API int32_t rueda_process_set_remove(rueda_session* session, int32_t set);
/* The number of members, and this rank's position among them in ascending order. Each returns -1 if the set is unknown
 * or this rank is not a member; rueda_last_error_code() is then INVALID_ARGUMENT. */
RUEDA_API int32_t rueda_process_set_size(const rueda_session* session, int32_t set);
RUEDA_API int32_t rueda_process_set_rank(const rueda_session* session, int32_t set);
/* Writes the first `capacity` members in ascending order to `ranks`, and the number of all members to `*count`. This
 * rank need not be a member. INVALID_ARGUMENT: no such set, `count` is NULL, or `ranks` is NULL and `capacity` is
 * above 0. */
RUEDA_API int32_t rueda_process_set_ranks(const rueda_session* session, int32_t set, int32_t* ranks, size_t capacity,
                                          size_t* count);

/* ---- Operations ---------------------------------------------------------------------------------------------- */

/* A dense tensor. `shape` has `dimensions` (0 to 16) entries and is copied at enqueue. The elements lie row-major
 * unless `order` is given: for all-reduce, broadcast, reduce, send and receive it lists the dimensions from the
 * outermost in memory to the innermost, so [0, 2, 3, 1] is an image with its channels innermost (channels-last). Ranks
 * agree on the order as on the shape: if they differ, all get MISMATCH. An output has the order of its input. */
typedef struct rueda_tensor {
  size_t struct_size;
  void* data; /* aligned to its element; may be NULL if the tensor has no elements */
  int32_t dtype;
  int32_t dimensions;
  const int64_t* shape; /* may be NULL if `dimensions` is 0 (one element) */
  int32_t device;       /* RUEDA_DEVICE_CPU or a plug-in's */
  int32_t device_index; /* a rank uses one device of each kind in a process set: its first enqueue there chooses
                         * it, and an enqueue with another one gets INVALID_ARGUMENT */
  size_t element_bytes; /* RUEDA_OPAQUE only: at least 1, equal on all ranks; any alignment */
  const int64_t* order; /* `dimensions` entries, each dimension once; NULL: row-major. Copied at enqueue */
} rueda_tensor;

/* Allocates an output for which the caller gave no data. Called once for each, on a library thread that runs nothing
 * else of the caller's. Returns `bytes` bytes on `device`, usable on `stream` and aligned to 64, or NULL: this rank's
 * operation then fails with SYSTEM, and succeeds on the other ranks. */
typedef void* (*rueda_allocate)(void* context, size_t bytes, int32_t device, int32_t device_index, void* stream);

/* Called exactly once when an operation has finished, on the session's completer thread, one callback at a time, with
 * no lock held. `code` is the result; rueda_handle_error(handle) is the sentence if the handle is not yet released. A
 * callback may enqueue, poll and release. Waits, shutdown and blocking operations inside it are refused with
 * INVALID_ARGUMENT. No C++ exception may leave a callback; the library catches and logs one that does. */
typedef void (*rueda_callback)(void* context, rueda_handle handle, int32_t code);

/* Options of one operation. A NULL pointer to this struct means all defaults. */
typedef struct rueda_op_options {
  size_t struct_size;
  const char* name;        /* equal on all ranks; at most 1024 bytes, UTF-8; NULL: keyed by set, kind and call order */
  int32_t process_set;     /* RUEDA_GLOBAL_SET, or a set that this rank has made */
  int32_t codec;           /* RUEDA_CODEC_... */
  int32_t has_scale;       /* 1: the two factors below apply; 0: both are 1 */
  int32_t average_over;    /* RUEDA_OVER_MEMBERS */
  double prescale;         /* multiplies the input; for integers in double precision, truncated */
  double postscale;        /* multiplies the sum */
  void* stream;            /* device tensors: the input is ready, and the output may be written, behind what this stream
                            * holds now. The stream must exist until the enqueue returns; if `allocate` gives the
                            * output, until the operation is launched; if the library owns the output, until the
                            * handle is released and the operation has finished */
  rueda_callback callback; /* NULL: none */
  void* callback_context;
  rueda_allocate allocate; /* used if the output's data is NULL; NULL: the library owns the memory until release */
  void* allocate_context;
  int64_t name_id;        /* from rueda_intern, instead of `name`; 0: none */
  void* drain_context;    /* returned in rueda_completion */
  int32_t drain;          /* 1: rueda_drain reports its end; blocking forms ignore this */
  int32_t more;           /* 1: more operations follow at once, see below; blocking forms ignore this */
  double timeout_seconds; /* its limit, above 0; infinity: no limit; 0: RUEDA_TIMEOUT_SECONDS. See below */
  int32_t same_rows;      /* 1: all ranks give as many rows, see rueda_allgather_async; others ignore this */
} rueda_op_options;

/* An operation fails with TIMEOUT on all ranks if not all of them have submitted it within its limit on one of them. An
 * operation that runs longer than its limit ends the job's epoch. Ranks may give different limits. The library checks
 * limits about once a second. A join has no limit. */

/* `more` saves the wake-up of a library thread for each of many small operations, as MSG_MORE saves packets. An
 * operation enqueued with it may stay on this rank until any thread enqueues without it, waits, polls or drains
 * (looking at the completion descriptor does not count), for about a second at most. It leaves earlier if the library
 * is awake anyway. Until it leaves it is not submitted: wait for it, or enqueue without `more`, before rueda_shutdown.
 */

/* Writes to `*id` a number (at least 1, equal for equal names) that stands for `name` in `rueda_op_options.name_id`. An
 * enqueue by number does not measure, check or hash the name. The text may still be given as well, and other ranks need
 * not intern it. The session keeps the numbers until its end, so intern only names that recur.
 * INVALID_ARGUMENT: the name is empty, longer than 1024 bytes, or not UTF-8. */
RUEDA_API int32_t rueda_intern(rueda_session* session, const char* name, int64_t* id);

/* The loan. The library borrows tensor data from enqueue until the handle completes. A handle, failed or not, completes
 * only once the library no longer touches the data. Structs, names and shapes are copied at enqueue. After a failed
 * in-place operation the contents are unspecified.
 *
 * Every enqueue: on success `*handle` is a live handle; give it to rueda_release once. On failure nothing was enqueued,
 * and `*handle` is 0:
 *
 *   INVALID_ARGUMENT: a bad dtype, op, codec, root, set, shape or name; a name already in flight in the set; an output
 *   that differs from the input in shape or dtype, or overlaps it without being equal; in a group that reduces or moves
 *   rows, an output that lies in the memory of another tensor of the group (for example, the same tensor twice).
 *   NOT_INITIALIZED, SHUT_DOWN, PEER_LOST: as the error codes say.
 *
 * A name is in flight until its operation has finished, and on a device until rueda_wait_stream has returned OK.
 *
 * The result of an operation (rueda_wait): MISMATCH if ranks differ, with the same sentence on all of them; PEER_LOST;
 * SHUT_DOWN; TIMEOUT if its limit passed. */

/* Reduces the `input` of all ranks element by element with `op`; every rank receives the same bits in `output`.
 * `output` may be the same tensor as `input` (in place). Its data may be NULL, see rueda_output. */
RUEDA_API int32_t rueda_allreduce_async(rueda_session* session, const rueda_tensor* input, const rueda_tensor* output,
                                        int32_t op, const rueda_op_options* options, rueda_handle* handle);

/* The same for `count` tensors as one group: accepted whole or not at all, reduced together, one handle.
 * `options->name` names the group, and its tensor i is "<name>.<i>", unless `names` gives each tensor's name. A group
 * of zero tensors is allowed and completes at once; the limit is 1048576. */
RUEDA_API int32_t rueda_grouped_allreduce_async(rueda_session* session, size_t count, const rueda_tensor* inputs,
                                                const rueda_tensor* outputs, const char* const* names, int32_t op,
                                                const rueda_op_options* options, rueda_handle* handle);

/* Reduces the `input` of all ranks as rueda_allreduce does and gives each rank its rows of the result. The rows (steps
 * of dimension 0, which must exist) are dealt out in rank order, as evenly as possible; the first ranks get one row
 * more. `output` has the shape of this rank's rows and may be the slice of `input` that holds them (in place).
 * `output`, or its data, may be NULL, see rueda_output. */
RUEDA_API int32_t rueda_reducescatter_async(rueda_session* session, const rueda_tensor* input,
                                            const rueda_tensor* output, int32_t op, const rueda_op_options* options,
                                            rueda_handle* handle);
/* As a group, see rueda_grouped_allreduce_async; `outputs` may be NULL. */
RUEDA_API int32_t rueda_grouped_reducescatter_async(rueda_session* session, size_t count, const rueda_tensor* inputs,
                                                    const rueda_tensor* outputs, const char* const* names, int32_t op,
                                                    const rueda_op_options* options, rueda_handle* handle);

/* Copies the `input` of `root` (a rank of the job and a member of the set) to the `output` of all members. On the root
 * `output` may equal `input`. On the others only the shape and dtype of `input` are read, and `output` may equal it. */
RUEDA_API int32_t rueda_broadcast_async(rueda_session* session, const rueda_tensor* input, const rueda_tensor* output,
                                        int32_t root, const rueda_op_options* options, rueda_handle* handle);

/* The same for `count` tensors as one group, see rueda_grouped_allreduce_async. */
RUEDA_API int32_t rueda_grouped_broadcast_async(rueda_session* session, size_t count, const rueda_tensor* inputs,
                                                const rueda_tensor* outputs, const char* const* names, int32_t root,
                                                const rueda_op_options* options, rueda_handle* handle);

/* Reduces the `input` of all ranks as rueda_allreduce does, into the `output` of `root`, which may be its `input`. On
 * the other ranks `output` is ignored and may be NULL. On the root `output`, or its data, may be NULL, see
 * rueda_output. */
RUEDA_API int32_t rueda_reduce_async(rueda_session* session, const rueda_tensor* input, const rueda_tensor* output,
                                     int32_t op, int32_t root, const rueda_op_options* options, rueda_handle* handle);
/* As a group, see rueda_grouped_allreduce_async; `outputs` may be NULL. */
RUEDA_API int32_t rueda_grouped_reduce_async(rueda_session* session, size_t count, const rueda_tensor* inputs,
                                             const rueda_tensor* outputs, const char* const* names, int32_t op,
                                             int32_t root, const rueda_op_options* options, rueda_handle* handle);

/* The exchanges below move rows (steps of dimension 0, which must exist). All other dimensions are equal on all ranks.
 * No rank needs to know the number of rows of the others. Rows arrive in rank order. `output`, or its data, may be NULL
 * (dimension 0 is then ignored): the memory comes from `options->allocate` or belongs to the library, and rueda_output
 * gives its address and shape. Memory that the caller gives must not overlap the input and must have exactly the shape
 * that arrives; otherwise this rank's operation fails with INVALID_ARGUMENT and succeeds on its peers. Any dtype; the
 * bits are unchanged; codecs and scales do not apply. */

/* Gathers the rows of all ranks on all ranks. With `same_rows` the number of rows is agreed on as the other dimensions
 * are, and a rank that gives another number, or does not say `same_rows`, gets MISMATCH. On GPUs the ranks then need
 * not tell each other how many come, and the input may lie in the output where its rows belong. */
RUEDA_API int32_t rueda_allgather_async(rueda_session* session, const rueda_tensor* input, const rueda_tensor* output,
                                        const rueda_op_options* options, rueda_handle* handle);
/* As a group, see rueda_grouped_allreduce_async; `outputs` may be NULL. */
RUEDA_API int32_t rueda_grouped_allgather_async(rueda_session* session, size_t count, const rueda_tensor* inputs,
                                                const rueda_tensor* outputs, const char* const* names,
                                                const rueda_op_options* options, rueda_handle* handle);

/* Rank r of the set receives the next `splits[r]` rows of every rank's input. `splits` has one entry for each rank and
 * adds up to the number of rows, else INVALID_ARGUMENT. NULL: equal parts, and the number of rows must be a multiple of
 * the number of ranks. rueda_received_splits gives the number of rows that came from each rank. */
RUEDA_API int32_t rueda_alltoall_async(rueda_session* session, const rueda_tensor* input, const int64_t* splits,
                                       const rueda_tensor* output, const rueda_op_options* options,
                                       rueda_handle* handle);
/* As a group; `splits`, each list in it and `outputs` may be NULL. */
RUEDA_API int32_t rueda_grouped_alltoall_async(rueda_session* session, size_t count, const rueda_tensor* inputs,
                                               const int64_t* const* splits, const rueda_tensor* outputs,
                                               const char* const* names, const rueda_op_options* options,
                                               rueda_handle* handle);

/* Gathers the rows of all ranks on `root`. The other ranks have no output; their `output` is ignored. */
RUEDA_API int32_t rueda_gather_async(rueda_session* session, const rueda_tensor* input, const rueda_tensor* output,
                                     int32_t root, const rueda_op_options* options, rueda_handle* handle);
/* As a group; `outputs` may be NULL. */
RUEDA_API int32_t rueda_grouped_gather_async(rueda_session* session, size_t count, const rueda_tensor* inputs,
                                             const rueda_tensor* outputs, const char* const* names, int32_t root,
                                             const rueda_op_options* options, rueda_handle* handle);

/* Rank r of the set receives the next `splits[r]` rows of the root's input. NULL: dealt out as in rueda_reducescatter.
 * On the other ranks `splits` is ignored, and `input` (or `output` if that is NULL) is read only for the dtype and for
 * the shape beyond dimension 0. */
RUEDA_API int32_t rueda_scatter_async(rueda_session* session, const rueda_tensor* input, const int64_t* splits,
                                      const rueda_tensor* output, int32_t root, const rueda_op_options* options,
                                      rueda_handle* handle);
/* As a group; `splits` and each list in it may be NULL. On the other ranks `inputs` or `outputs` may be NULL as well.
 */
RUEDA_API int32_t rueda_grouped_scatter_async(rueda_session* session, size_t count, const rueda_tensor* inputs,
                                              const int64_t* const* splits, const rueda_tensor* outputs,
                                              const char* const* names, int32_t root, const rueda_op_options* options,
                                              rueda_handle* handle);

/* Sends `input` to rank `peer` of the job, which receives it under the same name into a tensor of the same dtype and
 * shape; otherwise both get MISMATCH. No other rank takes part. A name belongs to the two ranks and the direction,
 * whatever the process set, and both ranks must be members of the set. Several messages of one name, or without a name,
 * may be in flight: the first send meets the first receive. The data of the received tensor may be NULL, see
 * rueda_output. INVALID_ARGUMENT: the peer is this rank or is not a member.
 *
 * A receive from RUEDA_ANY_SOURCE takes a message of this name from any other member of the process set, at the price
 * of one more round trip to rank 0. If several senders wait, they take turns. Receives of one name keep their order if
 * one message could go to either of them, whatever their sets: a later one starts once the earlier one has a sender. A
 * receive from any source fails with SHUT_DOWN once all other members have shut down. INVALID_ARGUMENT: a grouped
 * receive from RUEDA_ANY_SOURCE, or a set without another member. */
RUEDA_API int32_t rueda_send_async(rueda_session* session, const rueda_tensor* input, int32_t peer,
                                   const rueda_op_options* options, rueda_handle* handle);
RUEDA_API int32_t rueda_recv_async(rueda_session* session, const rueda_tensor* output, int32_t peer,
                                   const rueda_op_options* options, rueda_handle* handle);
/* Writes to `*rank` the rank of the job that sent the message of a receive; for a send, this rank. Call it once the
 * operation has finished, or once rueda_wait_stream has returned OK for it. INVALID_ARGUMENT: no such handle, another
 * kind of operation, still in flight, or a receive from any rank that failed before a message came. */
RUEDA_API int32_t rueda_source(rueda_handle handle, int32_t* rank);
/* Send and receive as a group, see rueda_grouped_allreduce_async: all messages go to one peer, or come from it. */
RUEDA_API int32_t rueda_grouped_send_async(rueda_session* session, size_t count, const rueda_tensor* inputs,
                                           const char* const* names, int32_t peer, const rueda_op_options* options,
                                           rueda_handle* handle);
RUEDA_API int32_t rueda_grouped_recv_async(rueda_session* session, size_t count, const rueda_tensor* outputs,
                                           const char* const* names, int32_t peer, const rueda_op_options* options,
                                           rueda_handle* handle);

/* Completes on each rank once all members have called it and every operation that was agreed before it in its set has
 * run. */
RUEDA_API int32_t rueda_barrier_async(rueda_session* session, const rueda_op_options* options, rueda_handle* handle);

/* This rank has no more data. Until all members of the set have joined, it takes part in the others' operations with a
 * neutral contribution: in all-reduce, reduce and reduce-scatter, sums and averages count it as nothing (an average
 * still divides by all members unless `average_over` says otherwise), and minimum, maximum, product and the bitwise
 * operators ignore it. Barriers do not wait for it. Operations without a neutral contribution (a broadcast, the
 * exchanges, Adasum, a prescaled product or band, a reduce to a root that has joined) fail with MISMATCH on the others;
 * the sentence names the ranks that have joined. Messages (send, receive) do not belong to the set and go on.
 *
 * What this rank submitted before the join still counts. Until the join ends, other operations of this rank in the set
 * are refused (INVALID_ARGUMENT). The join ends on all members when the last one has joined; unnamed operations then
 * count on from the set's maximum. No limit applies to a join; rueda_abandon returns TIMEOUT at once and lets it go on.
 * Of the options only `process_set`, the callback and `drain` count. */
RUEDA_API int32_t rueda_join_async(rueda_session* session, const rueda_op_options* options, rueda_handle* handle);
/* Enqueues, waits and releases; writes to `*last_rank`, if not NULL, the rank of the job that joined last. */
RUEDA_API int32_t rueda_join(rueda_session* session, const rueda_op_options* options, int32_t* last_rank);
/* Writes to `*rank` the rank that joined last. INVALID_ARGUMENT: no such handle, not a join, in flight, or failed. */
RUEDA_API int32_t rueda_last_joined(rueda_handle handle, int32_t* rank);

/* Blocking forms: enqueue, wait and release in one call; the fastest way for one small tensor. They continue to wait
 * after a signal. A callback in `options` is called as well. INVALID_ARGUMENT: the library would own an output, which
 * this call would release at once. */
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

/* Waits until the operation has finished, and returns its result. Its output can then be used by the host and on every
 * stream. May be called any number of times, from several threads. `timeout_seconds` < 0: no timeout; 0: does not wait.
 *
 *   TIMEOUT while rueda_poll still returns 0: this wait timed out; the operation is in flight and can be waited for
 * again. INTERRUPTED: a signal handler ran. INVALID_ARGUMENT: no such handle, or called inside a callback. */
RUEDA_API int32_t rueda_wait(rueda_handle handle, double timeout_seconds);
/* For tensors on a device: waits until the library has given the device all of the operation's work, and makes
 * `stream`, a stream of the calling thread's choice on that device, wait for the output. The host does not wait for the
 * device; the loan of the tensors lasts until rueda_poll returns 1. At enqueue the library puts only a mark into the
 * caller's stream. If the library owns the output, it also takes and frees that memory in the stream's order; if
 * `allocate` gives the output, a second mark follows.
 *
 * OK is not the result yet: the device, or a rank, may still fail. rueda_wait says whether it did. If the operation has
 * finished, or its tensors lie in the host's memory, this returns what rueda_wait would. TIMEOUT, INTERRUPTED and
 * INVALID_ARGUMENT as rueda_wait. SYSTEM: the device failed. */
RUEDA_API int32_t rueda_wait_stream(rueda_handle handle, void* stream, double timeout_seconds);
/* Returns 1 if the operation has finished, 0 if it is in flight, -1 if there is no such handle. Never blocks and never
 * runs the engine. */
RUEDA_API int32_t rueda_poll(rueda_handle handle);
/* Gives the handle up. An operation in flight goes on, its loan lasts until it has finished, and its callback still
 * runs exactly once. INVALID_ARGUMENT: no such handle (or released before). */
RUEDA_API int32_t rueda_release(rueda_handle handle);
/* Ends the loan early: returns once the library no longer touches the data. An operation that is in no batch yet fails
 * with TIMEOUT on all ranks. The call waits for an operation that is running; after `timeout_seconds` it ends the job's
 * epoch (PEER_LOST on all ranks). The handle must still be released. Returns what rueda_wait would. */
RUEDA_API int32_t rueda_abandon(rueda_handle handle, double timeout_seconds);
/* The error sentence of a finished operation; "" if it succeeded, is in flight, or if there is no such handle
 * (rueda_last_error_code() is then INVALID_ARGUMENT). Valid until the handle is released. */
RUEDA_API const char* rueda_handle_error(rueda_handle handle);
/* Fills `output` with the output of tensor `index` (0 unless grouped) of an operation that has finished, or for which
 * rueda_wait_stream has returned OK. Memory that the library owns, and `shape` in any case, are valid until the handle
 * is released. Set `output->struct_size` before the call. INVALID_ARGUMENT: no such handle, still in flight, or no
 * tensor `index`. If the operation failed, its error is returned. */
RUEDA_API int32_t rueda_output(rueda_handle handle, size_t index, rueda_tensor* output);

/* Writes the numbers of rows that an exchange received from each rank of the set, in rank order; for a group, those of
 * all its tensors one after the other; none for a kind of operation that receives no rows. Call it once the exchange
 * has finished, or once rueda_wait_stream has returned OK for it. `*count` is how many numbers there are; nothing is
 * written to `splits` if that exceeds `capacity`. INVALID_ARGUMENT: no such handle, or still in flight. If the
 * operation failed, its error is returned. */
RUEDA_API int32_t rueda_received_splits(rueda_handle handle, int64_t* splits, size_t capacity, size_t* count);

/* ---- Memory for tensors -------------------------------------------------------------------------------------- */

/* Memory that rueda_memory_allocate has given. */
typedef struct rueda_memory {
  size_t struct_size;
  void* data;     /* zeros, aligned to a page */
  size_t bytes;   /* whole pages: at least as many as asked for */
  int32_t shared; /* 1: other ranks of this host can map it; 0: private memory */
  int32_t reserved;
} rueda_memory;

/* Gives memory that the other ranks of this host map too. If all tensors of an all-reduce lie in such memory on every
 * rank, and all ranks of its process set are on one host, the ranks reduce them where they lie, and nothing is copied.
 * Otherwise the memory is like any other: it works in every operation. Set `memory->struct_size` before the call.
 *
 * Tensors may begin anywhere in it. While one is lent to an operation, other ranks read and write it, and nothing else
 * around it. They do not after the operation has finished, also if it has failed, and also if a rank was stopped in the
 * middle of it. After a failure the tensors that it was to write have unspecified contents, and their pages are private
 * memory from then on.
 *
 * Memory lives until rueda_memory_free, also after rueda_shutdown. Another session does not share it: allocate anew
 * after rueda_init. The pages are taken now, on the NUMA node of the calling thread, in huge pages if the kernel has
 * them for shared memory (/sys/kernel/mm/transparent_hugepage/shmem_enabled). The child of a fork finds the bytes at
 * the same addresses; what it writes stays its own, and a page that it has not written may still show what the parent
 * writes.
 *
 * `shared` is 0 if no other rank is on this host, if RUEDA_SHARED_TENSORS is 0, or if the system refuses shared memory.
 *
 *   SYSTEM: the tensors of this rank would take more than RUEDA_SHARED_TENSOR_BYTES, or the system has no memory. */
RUEDA_API int32_t rueda_memory_allocate(rueda_session* session, size_t bytes, rueda_memory* memory);

/* Frees memory of rueda_memory_allocate; NULL is allowed. No operation may use it any more. Any thread, at any time,
 * after rueda_shutdown too. INVALID_ARGUMENT: `data` is not such memory, or was freed before. */
RUEDA_API int32_t rueda_memory_free(void* data);

/* ---- Completions in an event loop of the caller's ------------------------------------------------------------- */

/* The end of an operation that was enqueued with `drain`. `handle` is live and must still be released. */
typedef struct rueda_completion {
  rueda_handle handle;
  void* context; /* the operation's `drain_context` */
  int32_t code;  /* the result, as rueda_wait would return it */
  int32_t reserved;
} rueda_completion;

/* A descriptor for poll, select or epoll. It is readable (level-triggered) while there is something to drain. Do not
 * read or close it. It belongs to the session, is the same each time, and is closed by rueda_shutdown: remove it from
 * your loop before. SYSTEM: no descriptor is left. */
RUEDA_API int32_t rueda_completion_fd(rueda_session* session, int32_t* fd);

/* Moves at most `capacity` completions to `out`, in the order in which the operations finished, and writes their number
 * to `*count`. Never blocks. Allowed inside a callback. Each completion is reported once, when its output may be read.
 *
 * A released handle is not reported, whether its operation has finished or not. So `out` holds live handles only, and a
 * session that is never drained keeps no more completions than it has unreleased handles. rueda_shutdown drops
 * completions that were not drained; the handles stay valid, and rueda_wait still gives their results. */
RUEDA_API int32_t rueda_drain(rueda_session* session, rueda_completion* out, size_t capacity, size_t* count);

/* ---- Diagnosis ----------------------------------------------------------------------------------------------- */

/* Writes a JSON object with the counters of this rank since rueda_init: tensors, bytes, batches, fusion factor, times,
 * cache hits, algorithms, memory held. docs/guide/diagnosis.md lists the fields. Cheap. `*bytes` is the length of the
 * text with its NUL. Nothing is written if `capacity` is smaller: call again with a larger buffer. `json` may be NULL
 * if `capacity` is 0. */
RUEDA_API int32_t rueda_stats(const rueda_session* session, char* json, size_t capacity, size_t* bytes);

/* Writes the flight record, the last 1024 tensors of this rank with their progress and times, as JSON to `path`. Every
 * {rank} in `path` is replaced by the rank; without one, ".<rank>" is appended. If `path` is NULL a few lines go to the
 * log. Works until rueda_shutdown, even while other threads hang in the session. Blocks for 1 s at most, for the answer
 * of the activity callback. SYSTEM: the file cannot be written. INVALID_ARGUMENT: an empty path. NOT_INITIALIZED: the
 * session was shut down. */
RUEDA_API int32_t rueda_dump(rueda_session* session, const char* path);

/* Tells what the program is doing, for dumps and stall reports of any rank: writes a NUL-terminated text of at most
 * `capacity` bytes, such as "train.py:31 in load_batch". Called on a library thread while other threads may be stuck.
 * It must not call the library, and its answer is awaited for 1 s at most. Setting NULL removes the callback. A
 * callback that was replaced may still be running; rueda_shutdown waits for it. */
typedef void (*rueda_activity_callback)(void* context, char* text, size_t capacity);
RUEDA_API int32_t rueda_set_activity_callback(rueda_session* session, rueda_activity_callback callback, void* context);

/* Starts a timeline in Chrome's trace format, for ui.perfetto.dev and `rueda-timeline summary`; the file is a valid
 * JSON array at every moment. docs/guide/diagnosis.md describes its contents. If `path` contains {rank}, this rank
 * writes its own operations there. Otherwise rank 0's call makes all ranks record and writes one file, and calls of
 * other ranks do nothing; a rank that records for itself is missing from that file. If `mark_cycles` is not 0, each
 * round of agreement that released a batch is marked. RUEDA_TIMELINE does the same at init. INVALID_ARGUMENT: no path,
 * or a timeline is already being written. SYSTEM: the file cannot be made, or the path is not a regular file. */
RUEDA_API int32_t rueda_start_timeline(rueda_session* session, const char* path, int32_t mark_cycles);
/* Ends the timeline with all that ranks have recorded by now; waits at most 5 s for ranks that do not answer. Does
 * nothing if this rank writes no timeline. rueda_shutdown ends the timeline too: it waits 2 s at most for other ranks,
 * and logs a failure. SYSTEM: the file could not be written. TIMEOUT: the disk is too slow; the rest is still written
 * while the process lives. */
RUEDA_API int32_t rueda_stop_timeline(rueda_session* session);

/* ---- Errors, build, log -------------------------------------------------------------------------------------- */

/* Code and sentence of the calling thread's last call: RUEDA_OK and "" if it succeeded, so read them before any other
 * call. The sentence is valid until the thread's next call. Never NULL. */
RUEDA_API int32_t rueda_last_error_code(void);
RUEDA_API const char* rueda_last_error(void);
/* The name of a code, such as "PEER_LOST"; "?" for any other number. */
RUEDA_API const char* rueda_error_name(int32_t code);

/* The version, such as "1.0.0", and a JSON object with version, build id, compiler, protocol, kernels, algorithms, and
 * the plug-ins that were found or the reasons that they were not. */
RUEDA_API const char* rueda_version(void);
RUEDA_API const char* rueda_build_info(void);

/* Receives every log line at or above RUEDA_LOG_LEVEL instead of stderr; NULL restores stderr. Applies to the whole
 * process. Called on any thread, one line at a time; it must not call the library. After rueda_set_log_callback
 * returns, the previous callback no longer runs. */
typedef void (*rueda_log_callback)(void* context, int32_t level, const char* line);
RUEDA_API void rueda_set_log_callback(rueda_log_callback callback, void* context);

#ifdef __cplusplus
}
#endif
#endif
