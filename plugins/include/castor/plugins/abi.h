/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CASTOR_PLUGINS_ABI_H_
#define CASTOR_PLUGINS_ABI_H_

/* The border between Castor and a plugin: plain C11.
 *
 * A plugin is a shared object that exports one function, castor_plugin_query_v2. It returns a constant description and
 * does nothing else; the loader checks it field by field before it calls any other function. `create` then receives the
 * host's tables (castor_host_v2: the model as units and parameters) and returns a strategy (castor_strategy_v2: the
 * functions that the host calls around each unit).
 *
 * The functions stand in lists, one file each, which are also what the C++ sides of the border are made from:
 *   castor/plugins/abi/model.inc        of the host: units, parameters, first values, binding
 *   castor/plugins/abi/device.inc       of the host: memory of the model's own allocator; null where the host computes
 *   castor/plugins/abi/groups.inc       of the host: ranks that compute together; null where there is one rank
 *   castor/plugins/abi/stages.inc       of the host: the stages of a pipeline; null where there is none
 *   castor/plugins/abi/steps.inc        of the strategy: units, gradients, steps
 *   castor/plugins/abi/values.inc       of the strategy: weights, states and gradients
 *   castor/plugins/abi/commits.inc      of the strategy: runs that outlive the process; may be null
 *   castor/plugins/abi/activations.inc  of the strategy: bytes that backward reads again; may be null
 *
 * Rules on both sides
 * - Every function takes the opaque `self` of its side first. Each list says which functions a side may leave null.
 * - Every struct starts with struct_size (castor_plugin_info after its magic): the side that fills one writes no
 *   further than it, the side that reads one reads no further. Tables and structs grow at their end. DLPack's structs are that standard's.
 * - Arrays of structs cross as arrays of pointers; enumerations as integers of a fixed width.
 * - No exception crosses: a failing function returns a status other than CASTOR_OK after it has left the error with
 *   castor_model_v2.set_error. Where a function of the host failed, its error is there already: return its status.
 * - Threads: unless a comment says otherwise, calls come from the thread that trains, or from the thread that runs
 *   backward while the training thread waits for it: never two at once.
 * - Ranks: unless a comment says "collective", a function is local: it may be called on one rank alone. A collective
 *   one is called by all ranks of the world, in the same order.
 * - Waiting: unless a comment says "may wait", a function returns without waiting for a drive, a device or a rank. One
 *   that may wait asks `interrupted` while it does.
 * - Sizes are bytes, counts are elements. Pointers handed out stay valid as long as the side they came from, unless a
 *   comment says less.
 * - Tensors cross as DLPack (DLTensor where they are borrowed for the call, DLManagedTensor where ownership moves).
 */

#include <stddef.h>
#include <stdint.h>

#ifndef DLPACK_DLPACK_H_ /* <ATen/dlpack.h> is the same header under another name */
#include <dlpack/dlpack.h>
#endif

#ifdef __cplusplus
extern "C" {
#endif

#define CASTOR_PLUGIN_MAGIC 0x43535452u /* "CSTR" */
#define CASTOR_ABI_MAJOR 2              /* differs: refused */
#define CASTOR_ABI_MINOR 0              /* differs: refused, as long as ABI 2 is provisional */

/* Also the exit codes of the castor command. */
typedef int32_t castor_status;
enum {
  CASTOR_OK = 0,
  CASTOR_FAILED = 1,
  CASTOR_USAGE = 2,
  CASTOR_DOES_NOT_FIT = 3,
  CASTOR_IO = 4,
  CASTOR_PLUGIN = 5,
  CASTOR_INTERRUPTED = 130
};

/* The needs of a plugin; the host refuses a plugin with bits that it does not know. */
#define CASTOR_CAP_LINKS_TORCH (UINT64_C(1) << 0)  /* links LibTorch: torch_tag must equal the host's */
#define CASTOR_CAP_CPU (UINT64_C(1) << 1)          /* trains with the host as the compute device */
#define CASTOR_CAP_CUDA (UINT64_C(1) << 2)         /* trains on a CUDA device */
#define CASTOR_CAP_LINKS_CASTOR (UINT64_C(1) << 3) /* links libcastor: castor_tag must equal the host's */
#define CASTOR_CAP_RANKS (UINT64_C(1) << 4)        /* trains over several ranks; others are refused there */
#define CASTOR_CAP_STAGES (UINT64_C(1) << 5)       /* has run_step: drives the stages of a pipeline */
#define CASTOR_CAP_KNOWN                                                                                    \
  (CASTOR_CAP_LINKS_TORCH | CASTOR_CAP_CPU | CASTOR_CAP_CUDA | CASTOR_CAP_LINKS_CASTOR | CASTOR_CAP_RANKS | \
   CASTOR_CAP_STAGES)

/* Indices of arrays by tier. */
enum { CASTOR_DEVICE = 0, CASTOR_HOST = 1, CASTOR_NVME = 2, CASTOR_N_TIERS = 3 };

/* "There is none", where an unsigned number is asked for. */
#define CASTOR_NONE UINT32_MAX

/* An error in full. `message` is one sentence: the numbers, the state found, the remedy. The other fields say the same
 * to a program; `option` is the name of the option to change, or null. */
typedef struct castor_error {
  uint32_t struct_size;
  castor_status status;
  const char* message;
  const char* option;
  int32_t tier; /* whose room was too small; -1: of none */
  /* Where tier is not -1: the budget that would do and the one that there is, or of a machine the bytes asked for (0: not
   * known) and those that it has free. */
  uint64_t needed_bytes, available_bytes;
} castor_error;

typedef uint32_t castor_log_level;
enum { CASTOR_LOG_DEBUG = 0, CASTOR_LOG_INFO = 1, CASTOR_LOG_WARN = 2 };

/* ---- options ------------------------------------------------------------------------------------------- */

enum {
  CASTOR_OPTION_BOOL = 0,   /* "true" or "false" */
  CASTOR_OPTION_INT = 1,    /* decimal, within [min, max] */
  CASTOR_OPTION_FLOAT = 2,  /* decimal, within [min, max] */
  CASTOR_OPTION_BYTES = 3,  /* "512MiB", within [min, max]; crosses as a decimal count of bytes. A default of "" is a
                               limit that is not set, and crosses as "" */
  CASTOR_OPTION_STRING = 4, /* any text */
  CASTOR_OPTION_ENUM = 5,   /* one of `choices` */
  CASTOR_OPTION_RETIRED = 6 /* has no effect any more: refused when set, `help` names the replacement; never crosses */
};

typedef struct castor_option {
  uint32_t struct_size;
  uint32_t type; /* CASTOR_OPTION_* */
  const char* name;
  const char* default_value; /* never null, and within the range */
  double min, max;           /* for INT, FLOAT and BYTES; -INFINITY and INFINITY where there is no limit */
  const char* choices;       /* for ENUM: "auto|cpu|cuda" */
  const char* help;          /* one line */
} castor_option;

/* An option as the user set it (or its default). The host has checked it against the schema. */
typedef struct castor_option_value {
  uint32_t struct_size;
  const char* name;
  const char* value;
} castor_option_value;

/* ---- the model ----------------------------------------------------------------------------------------- */

#define CASTOR_PARAM_TRAINABLE UINT32_C(1)
#define CASTOR_PARAM_OPAQUE UINT32_C(2) /* frozen bytes (a quantised base): moved as they are, never written back */

typedef struct castor_param_info {
  uint32_t struct_size;
  uint32_t flags;         /* CASTOR_PARAM_* */
  const char* name;       /* as in named_parameters: "blocks.0.attn.qkv.weight" */
  const int64_t* shape;   /* ndim entries: of this rank's part, where the parameter is sharded */
  const int64_t* strides; /* ndim entries; null: contiguous in row-major order. The elements are dense in any case, and
                             element order in memory is that of gradients, states and norms */
  int32_t ndim;
  DLDataType dtype; /* of the weight that computes: fp32, fp16 or bf16; of an opaque one, any */
  uint64_t numel;
  uint32_t storage;        /* parameters with the same number lie in one storage */
  uint64_t storage_offset; /* elements before this one there */
} castor_param_info;

/* How a parameter lies over the ranks. With one rank: shape, no shard_group, no reduce_groups. */
typedef struct castor_param_layout {
  uint32_t struct_size;
  int32_t shard_dim;    /* the dimension that is sharded along shard_group; -1: none */
  uint32_t shard_group; /* number of a group; CASTOR_NONE */
  uint32_t n_reduce_groups;
  const uint32_t* reduce_groups; /* the groups over which its gradient is summed */
  const int64_t* full_shape;     /* of all ranks together, param_info.ndim entries */
  int32_t expert;                /* 1: a rank may have no gradient of it in a step */
} castor_param_layout;

/* A unit is fetched at once: a module with parameters. Units are numbered in the order in which the model registers
 * them. */
typedef struct castor_unit_info {
  uint32_t struct_size;
  uint32_t n_params;
  const char* name;
  const uint32_t* params; /* n_params parameter ids; a tied parameter is listed by each unit that uses it */
} castor_unit_info;

typedef struct castor_unit_layout {
  uint32_t struct_size;
  uint32_t parent; /* the unit whose module holds this one's; CASTOR_NONE */
  uint32_t block;  /* number of the repeated block it belongs to; CASTOR_NONE */
  uint32_t stage;  /* number of the model chunk of a pipeline; 0 where there is none */
} castor_unit_layout;

/* A tensor of the model that is not trained (a running mean): it stays with the host. */
typedef struct castor_buffer_info {
  uint32_t struct_size;
  const char* name;
  const DLTensor* tensor; /* the model's own memory, valid until the model changes it */
} castor_buffer_info;

enum {
  CASTOR_FP32 = 0, /* floats */
  CASTOR_OWN = 1   /* bytes of the parameter's dtype */
};
#define CASTOR_ALL UINT64_MAX /* as n: all from `first` on */

/* Values of a parameter in host memory: number `first` to first + n - 1, in the order of its memory. */
typedef struct castor_values {
  uint32_t struct_size;
  uint32_t param;
  uint64_t first, n;
  uint32_t form; /* CASTOR_FP32 or CASTOR_OWN */
  void* data;
} castor_values;

/* The device allocator of the model's own tensors, bytes. */
typedef struct castor_device_memory {
  uint32_t struct_size;
  uint64_t allocated, allocated_peak; /* held by tensors; the peak is since the last reset_peak */
  uint64_t reserved, reserved_peak;   /* taken from the device */
  uint64_t total;                     /* of the device */
} castor_device_memory;

/* ---- ranks --------------------------------------------------------------------------------------------- */

/* Axes of a group; a group along several axes has several bits. */
#define CASTOR_AXIS_DATA UINT32_C(1)
#define CASTOR_AXIS_TENSOR UINT32_C(2)
#define CASTOR_AXIS_SEQUENCE UINT32_C(4)
#define CASTOR_AXIS_PIPELINE UINT32_C(8)
#define CASTOR_AXIS_EXPERT UINT32_C(16)
#define CASTOR_AXIS_REPLICA UINT32_C(32) /* ranks that hold the same shard */
#define CASTOR_AXIS_TIE UINT32_C(64)     /* ranks that hold uses of one tied parameter */
#define CASTOR_AXIS_HOST UINT32_C(128)   /* the ranks of this host */

/* Group 0 is the world. */
typedef struct castor_group_info {
  uint32_t struct_size;
  uint32_t axes;         /* CASTOR_AXIS_*; 0: the world */
  uint32_t rank, size;   /* of this process within the group */
  const uint32_t* ranks; /* `size` ranks of the world, by rank in the group */
  int32_t on_device;     /* 1: collectives take device memory and are queued on a stream; 0: host memory, and done when
                            they return */
} castor_group_info;

/* One buffer of each kind of a collective. Counts are elements of `dtype` (u8, i64, fp16, bf16, fp32 or fp64). */
typedef struct castor_collective {
  uint32_t struct_size;
  uint32_t group;
  const void* send;
  void* recv;
  DLDataType dtype;
  uint64_t n;             /* elements of this rank's part; all_reduce and broadcast: of the whole */
  const uint64_t* counts; /* elements of each rank's part where they differ, `size` of them; null: all n */
  uint32_t peer;          /* root of broadcast, other side of send and recv */
  void* stream;           /* cudaStream_t; null on the host */
} castor_collective;

enum { CASTOR_MAX = 0, CASTOR_MIN = 1, CASTOR_SUM = 2, CASTOR_OR = 3 };

/* Numbers that all ranks of a group make equal: `values` are replaced by the result. */
typedef struct castor_agreement {
  uint32_t struct_size;
  uint32_t group;
  uint32_t op; /* CASTOR_MAX, MIN, SUM or OR */
  uint32_t n;
  uint64_t* values;
} castor_agreement;

/* ---- pipelines ----------------------------------------------------------------------------------------- */

enum {
  CASTOR_FORWARD = 0,
  CASTOR_BACKWARD = 1,        /* of inputs and weights together */
  CASTOR_BACKWARD_INPUTS = 2, /* leaves the weights' part for BACKWARD_WEIGHTS of the same micro-batch */
  CASTOR_BACKWARD_WEIGHTS = 3
};

/* One action on one stage. FORWARD takes the activations of the stage before (none in the first: the host has the
 * data) and returns those for the next; in the last stage it returns none and sets `loss`. BACKWARD takes the gradients
 * of what FORWARD returned (none in the last stage) and returns those of what it took. The arrays of tensors are the
 * host's, valid until the next call; ownership of `in` moves to the host, that of `out` to the plugin. */
typedef struct castor_stage_call {
  uint32_t struct_size;
  uint32_t action; /* CASTOR_FORWARD, … */
  uint32_t stage;  /* number of a model chunk that this rank holds */
  uint32_t micro_batch;
  void* stream; /* the compute stream for this call; null on the host */
  uint32_t n_in, n_out;
  DLManagedTensor* const* in;
  DLManagedTensor* const* out;
  double loss; /* of the last stage's FORWARD */
} castor_stage_call;

/* A step that the strategy drives. */
typedef struct castor_pipeline_step {
  uint32_t struct_size;
  uint32_t n_micro_batches;
  uint32_t n_stages;  /* of the whole pipeline */
  int32_t evaluation; /* 1: forward only */
  double loss;        /* filled: the sum over the micro-batches, on the rank of the last stage */
} castor_pipeline_step;

/* ---- steps --------------------------------------------------------------------------------------------- */

#define CASTOR_MICRO_LAST UINT32_C(1)       /* the last of its step */
#define CASTOR_MICRO_NO_SYNC UINT32_C(2)    /* its gradients stay on this rank until a later one's are reduced */
#define CASTOR_MICRO_EVALUATION UINT32_C(4) /* no backward follows */
#define CASTOR_MICRO_UNKNOWN UINT32_C(8)    /* it is not known whether it is the last */

typedef struct castor_micro_batch {
  uint32_t struct_size;
  uint32_t index, count; /* number in the step, from 0; of how many, 0: not known */
  uint32_t flags;        /* CASTOR_MICRO_* */
} castor_micro_batch;

/* The rule of one optimizer step; docs/plugin_abi.md has its arithmetic. */
typedef uint32_t castor_optimizer;
enum {
  CASTOR_ADAM = 0,
  CASTOR_ADAMW = 1,
  CASTOR_SGD = 2,  /* looks at lr, weight_decay, momentum and nesterov alone */
  CASTOR_LARS = 3, /* SGD whose gradients are scaled by tensor: trust_coefficient and eps too */
  CASTOR_LAMB = 4  /* Adam whose updates, decay included, are scaled by tensor; never with max_value */
};

/* The values that a group's parameters have in place of those in castor_step_args. */
typedef struct castor_param_group {
  uint32_t struct_size;
  double lr, beta1, beta2, eps, weight_decay, momentum, trust_coefficient;
} castor_param_group;

typedef struct castor_step_args {
  uint32_t struct_size;
  castor_optimizer optimizer;
  double lr, beta1, beta2, eps, weight_decay;
  double max_norm;   /* global gradient norm to clip to; 0 = no clipping */
  double loss_scale; /* the loss was multiplied by this before backward; 1 = it was not */
  double max_value;  /* each element of the unscaled gradient is clamped to [-max_value, max_value]; 0 = off.
                        Never together with max_norm */
  uint32_t n_groups; /* 0: the values above are those of every parameter. Else each belongs to a group, and lr,
                        beta1, beta2, eps and weight_decay above are ignored */
  const castor_param_group* const* groups; /* n_groups of them */
  const uint32_t* group_of;                /* by parameter: the number of its group, below n_groups */
  double momentum;                         /* of SGD and LARS; groups have their own */
  double trust_coefficient;                /* of LARS; groups have their own. 0 = SGD. Never together with max_value */
  int32_t nesterov;                        /* of SGD and LARS, for all groups: 1 = Nesterov's momentum */
} castor_step_args;

typedef struct castor_step_result {
  uint32_t struct_size;
  int32_t skipped;  /* 1: gradients held inf or nan, and nothing was updated */
  double grad_norm; /* of the unscaled gradients before clipping; negative where it was not taken */
} castor_step_result;

/* Counted since attach. Tier order: device, host, nvme. */
typedef struct castor_stats {
  uint32_t struct_size;
  uint64_t used_bytes[3], peak_bytes[3], budget_bytes[3]; /* budget UINT64_MAX = no limit */
  uint64_t h2d_bytes, d2h_bytes, nvme_read_bytes, nvme_write_bytes;
  double wait_seconds;   /* the training thread waited for data */
  double update_seconds; /* the training thread spent inside step */
  /* The least time of a step as far as the plugin knows it, and the name of the resource that sets it; 0 and null
   * where it does not know. The name lives as long as the plugin. */
  double bound_seconds;
  const char* bound_by;
} castor_stats;

/* Part of a parameter's checkpoint: its values number `first` to `first` + n - 1, in host memory. */
typedef struct castor_param_state {
  uint32_t struct_size;
  uint32_t param;
  uint64_t first, n;
  float* master;               /* n values; null where the parameter is opaque */
  float *exp_avg, *exp_avg_sq; /* n values each, or null; ignored where the parameter is frozen. The momentum of SGD is
                                  in exp_avg, and its exp_avg_sq is ignored */
  uint64_t n_updates;          /* of the whole parameter: Adam's t */
  void* opaque;                /* of an opaque parameter: n values of its dtype, and all other arrays are null */
} castor_param_state;

/* The parts of a parameter whose master and states this rank keeps: `n` pairs of first value and end. */
typedef struct castor_ranges {
  uint32_t struct_size;
  uint32_t n;
  const uint64_t* first_and_end; /* 2 n numbers, valid until the next call into the strategy */
} castor_ranges;

enum { CASTOR_READ = 0, CASTOR_WRITE = 1 };

/* Parameters whose weights the host reads, or reads and writes, outside a unit. */
typedef struct castor_access {
  uint32_t struct_size;
  uint32_t mode; /* CASTOR_READ or CASTOR_WRITE */
  uint32_t n;
  const uint32_t* params; /* n of them */
} castor_access;

typedef struct castor_commit_args {
  uint32_t struct_size;
  uint64_t step;
  const void* note;
  uint64_t n_note_bytes;
} castor_commit_args;

/* The bytes of weights and states in a commit. */
typedef struct castor_commit_result {
  uint32_t struct_size;
  uint64_t written_bytes;    /* written to the folders by this commit */
  uint64_t referenced_bytes; /* were in the folders already, and stay where they are */
} castor_commit_result;

/* The run that the folders hold. */
typedef struct castor_committed_run {
  uint32_t struct_size;
  int32_t exists; /* 0: none, and the other fields mean nothing */
  uint64_t step;
  const void* note; /* as it was given to commit_begin, valid until the next call into the strategy */
  uint64_t n_note_bytes;
} castor_committed_run;

/* ---- the tables ---------------------------------------------------------------------------------------- */

typedef struct castor_model_v2 {
  uint32_t struct_size;
#include <castor/plugins/abi/as_fields.inc>
#include <castor/plugins/abi/model.inc>
} castor_model_v2;

typedef struct castor_device_v2 {
  uint32_t struct_size;
#include <castor/plugins/abi/as_fields.inc>
#include <castor/plugins/abi/device.inc>
} castor_device_v2;

typedef struct castor_groups_v2 {
  uint32_t struct_size;
#include <castor/plugins/abi/as_fields.inc>
#include <castor/plugins/abi/groups.inc>
} castor_groups_v2;

typedef struct castor_stages_v2 {
  uint32_t struct_size;
#include <castor/plugins/abi/as_fields.inc>
#include <castor/plugins/abi/stages.inc>
} castor_stages_v2;

typedef struct castor_host_v2 {
  uint32_t struct_size;
  void* self; /* of all four */
  const castor_model_v2* model;
  const castor_device_v2* device; /* null where the device is the host: there a plugin allocates its own memory */
  const castor_groups_v2* groups; /* null: one rank */
  const castor_stages_v2* stages; /* null: no pipeline */
} castor_host_v2;

typedef struct castor_steps_v2 {
  uint32_t struct_size;
#include <castor/plugins/abi/as_fields.inc>
#include <castor/plugins/abi/steps.inc>
} castor_steps_v2;

typedef struct castor_values_v2 {
  uint32_t struct_size;
#include <castor/plugins/abi/as_fields.inc>
#include <castor/plugins/abi/values.inc>
} castor_values_v2;

typedef struct castor_commits_v2 {
  uint32_t struct_size;
#include <castor/plugins/abi/as_fields.inc>
#include <castor/plugins/abi/commits.inc>
} castor_commits_v2;

typedef struct castor_activations_v2 {
  uint32_t struct_size;
#include <castor/plugins/abi/as_fields.inc>
#include <castor/plugins/abi/activations.inc>
} castor_activations_v2;

typedef struct castor_strategy_v2 {
  uint32_t struct_size;
  void* self;                               /* of all four */
  const castor_steps_v2* steps;             /* never null */
  const castor_values_v2* values;           /* never null */
  const castor_commits_v2* commits;         /* null: nothing outlives the process */
  const castor_activations_v2* activations; /* null: the host keeps its activations */
  /* Releases everything, and unbinds all bound parameters. Nothing is called after it. Never null. */
  void (*destroy)(void* self);
} castor_strategy_v2;

/* ---- the entry point ----------------------------------------------------------------------------------- */

typedef struct castor_plugin_info {
  uint32_t magic;       /* CASTOR_PLUGIN_MAGIC */
  uint32_t struct_size; /* sizeof(castor_plugin_info) as the plugin was compiled */
  uint16_t abi_major;   /* CASTOR_ABI_MAJOR */
  uint16_t abi_minor;   /* CASTOR_ABI_MINOR */
  uint32_t n_options;
  uint64_t capabilities;  /* CASTOR_CAP_* */
  const char* torch_tag;  /* LibTorch version and C++ ABI where CASTOR_CAP_LINKS_TORCH is set, else "" */
  const char* castor_tag; /* libcastor's version where CASTOR_CAP_LINKS_CASTOR is set, else "" */
  const char* name;
  const char* version;
  const char* summary;                 /* one line for `castor plugins list` */
  const castor_option* const* options; /* n_options of them */

  /* `values` holds each option of the schema once, retired ones left out; it is valid during the call only. Options
   * that cannot be combined are refused here (CASTOR_USAGE), not at step 40. The host's tables outlive the strategy;
   * `*out` belongs to the plugin until its destroy. */
  castor_status (*create)(const castor_host_v2* host, const castor_option_value* const* values, size_t n_values,
                          const castor_strategy_v2** out);
} castor_plugin_info;

#define CASTOR_PLUGIN_ENTRY "castor_plugin_query_v2"

#if defined(__GNUC__)
#define CASTOR_PLUGIN_EXPORT __attribute__((visibility("default")))
#else
#define CASTOR_PLUGIN_EXPORT
#endif

/* The one function that a plugin exports. */
CASTOR_PLUGIN_EXPORT const castor_plugin_info* castor_plugin_query_v2(void);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* CASTOR_PLUGINS_ABI_H_ */
