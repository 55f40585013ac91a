/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CASTOR_PLUGINS_ABI_H_
#define CASTOR_PLUGINS_ABI_H_

/* The border between Castor and a plugin: plain C11, append only.
 *
 * A plugin is a shared object that exports one function, castor_plugin_query_v1. It returns a constant description and
 * does nothing else; the loader checks it field by field before it calls any other function. `create` then receives the
 * host's table (castor_host_v1: the model as units and parameters) and returns a strategy (castor_strategy_v1: the
 * functions that the host calls around each unit).
 *
 * Rules on both sides
 * - Every function takes the opaque `self` of its table first. A null function pointer means "not supported": before
 *   calling one that was added in a later minor version, compare struct_size.
 * - Tables and argument structs that start with struct_size grow at their end; the side that fills one writes no
 *   further than struct_size. A struct without it never changes.
 * - No exception crosses: a failing function returns a status other than CASTOR_OK after it has left one sentence with
 *   castor_host_v1.set_error.
 * - Unless a comment says otherwise all calls come from the thread that trains, or from the thread that runs backward
 *   while the training thread waits for it: never two at once.
 * - Sizes are bytes, counts are elements. Pointers handed out stay valid as long as the table they came from.
 * - Tensors cross as DLPack (DLTensor where they are borrowed for the call, DLManagedTensor where ownership moves).
 */

#include <stddef.h>
#include <stdint.h>

#include <dlpack/dlpack.h>

#ifdef __cplusplus
extern "C" {
#endif

#define CASTOR_PLUGIN_MAGIC 0x43535452u /* "CSTR" */
#define CASTOR_ABI_MAJOR 1              /* differs: refused */
#define CASTOR_ABI_MINOR 12             /* a plugin's may be lower than the host's, never higher */

/* Also the exit codes of the castor command. */
typedef enum castor_status {
  CASTOR_OK = 0,
  CASTOR_FAILED = 1,
  CASTOR_USAGE = 2,
  CASTOR_DOES_NOT_FIT = 3,
  CASTOR_IO = 4,
  CASTOR_PLUGIN = 5,
  CASTOR_INTERRUPTED = 130
} castor_status;

/* The needs of a plugin; the host refuses a plugin with bits that it does not know. */
#define CASTOR_CAP_LINKS_TORCH (UINT64_C(1) << 0) /* links LibTorch: build_tag must equal the host's */
#define CASTOR_CAP_CPU (UINT64_C(1) << 1)         /* trains with the host as the compute device */
#define CASTOR_CAP_CUDA (UINT64_C(1) << 2)        /* trains on a CUDA device */
#define CASTOR_CAP_KNOWN (CASTOR_CAP_LINKS_TORCH | CASTOR_CAP_CPU | CASTOR_CAP_CUDA)

/* ---- options ------------------------------------------------------------------------------------------- */

typedef enum castor_option_type {
  CASTOR_OPTION_BOOL = 0,   /* "true" or "false" */
  CASTOR_OPTION_INT = 1,    /* decimal, within [min, max] */
  CASTOR_OPTION_FLOAT = 2,  /* decimal, within [min, max] */
  CASTOR_OPTION_BYTES = 3,  /* "512MiB", within [min, max]; crosses as a decimal count of bytes. A default of "" is a
                               limit that is not set, and crosses as "" */
  CASTOR_OPTION_STRING = 4, /* any text */
  CASTOR_OPTION_ENUM = 5,   /* one of `choices` */
  CASTOR_OPTION_RETIRED = 6 /* has no effect any more: refused when set, `help` names the replacement; never crosses */
} castor_option_type;

typedef struct castor_option {
  const char *name;
  castor_option_type type;
  const char *default_value; /* never null, and within the range */
  double min, max;           /* for INT, FLOAT and BYTES; -INFINITY and INFINITY where there is no limit */
  const char *choices;       /* for ENUM: "auto|cpu|cuda" */
  const char *help;          /* one line */
} castor_option;

/* An option as the user set it (or its default). The host has checked it against the schema. */
typedef struct castor_option_value {
  const char *name;
  const char *value;
} castor_option_value;

/* ---- the host's table ---------------------------------------------------------------------------------- */

#define CASTOR_PARAM_TRAINABLE UINT32_C(1)

typedef struct castor_param_info {
  const char *name;     /* as in named_parameters: "blocks.0.attn.qkv.weight" */
  const int64_t *shape; /* ndim entries */
  int32_t ndim;
  DLDataType dtype; /* of the weight that computes: fp32, fp16 or bf16 */
  uint64_t numel;
  uint32_t flags; /* CASTOR_PARAM_* */
} castor_param_info;

/* A unit is a module with parameters of its own. Units are numbered in the order in which the model registers them. */
typedef struct castor_unit_info {
  const char *name;
  const uint32_t *params; /* n_params parameter ids; a tied parameter is listed by each unit that uses it */
  uint32_t n_params;
} castor_unit_info;

/* The device allocator of the model's own tensors, bytes. All zero where the device is the host. */
typedef struct castor_device_memory {
  uint64_t allocated, allocated_peak; /* held by tensors; the peak is since the last reset_device_peak */
  uint64_t reserved, reserved_peak;   /* taken from the device */
  uint64_t total;                     /* of the device */
} castor_device_memory;

typedef enum castor_log_level { CASTOR_LOG_DEBUG = 0, CASTOR_LOG_INFO = 1, CASTOR_LOG_WARN = 2 } castor_log_level;

typedef struct castor_host_v1 {
  uint32_t struct_size;
  void *self;

  /* Leaves the sentence that explains the status about to be returned. Copied. */
  void (*set_error)(void *self, const char *message);
  void (*log)(void *self, castor_log_level level, const char *message);

  uint32_t (*n_units)(void *self);
  uint32_t (*n_params)(void *self);
  castor_status (*unit_info)(void *self, uint32_t unit, castor_unit_info *out);
  castor_status (*param_info)(void *self, uint32_t param, castor_param_info *out);

  /* Fills `numel` fp32 values in host memory with the parameter's initial value. The value depends on the model's seed
   * and the parameter alone, never on order or placement. */
  castor_status (*init_param)(void *self, uint32_t param, float *out);

  /* From now on the parameter reads and writes `data`: device memory of numel elements of its dtype that starts at a
   * multiple of 512 B. The parameter keeps its storage object for life, so views that autograd saved follow. */
  castor_status (*bind)(void *self, uint32_t param, void *data);
  /* Takes the memory away. An access to the parameter before the next bind is an error that says `why`. */
  castor_status (*unbind)(void *self, uint32_t param, const char *why);

  DLDevice (*device)(void *self);
  /* cudaStream_t of the stream that the model computes on; null where the device is the host. */
  void *(*compute_stream)(void *self);

  /* Memory from the allocator of the model's own tensors, ordered on the compute stream. Null where the device is
   * the host: there a plugin allocates its own. Status CASTOR_DOES_NOT_FIT leaves everything as it was. */
  castor_status (*device_alloc)(void *self, uint64_t n_bytes, void **out);
  void (*device_free)(void *self, void *data, uint64_t n_bytes);
  castor_status (*device_memory)(void *self, castor_device_memory *out);
  void (*reset_device_peak)(void *self);

  /* True once the user has asked to stop; a plugin that is about to wait long returns CASTOR_INTERRUPTED. */
  int32_t (*interrupted)(void *self);

  /* Since 1.1. As init_param, for `n` of the parameter's values from number `first` on: `out` receives these alone.
   * Since 1.11 from any thread, and from several at once. */
  castor_status (*init_param_range)(void *self, uint32_t param, uint64_t first, uint64_t n, float *out);

  /* Since 1.10, before the first device_alloc: asks the allocator to build each allocation whose size is a multiple
   * of `n_bytes`, itself a multiple of 2 MiB, from pages of `n_bytes`, so that no holes are left between such sizes.
   * Returns 1 where it will, 0 where it cannot. May be called for several page sizes; the first that divides a size
   * counts. Null where device_alloc is null. */
  int32_t (*device_pages)(void *self, uint64_t n_bytes);
} castor_host_v1;

/* ---- the plugin's strategy ----------------------------------------------------------------------------- */

/* The rule of one optimizer step; docs/plugin_abi.md has its arithmetic. */
typedef enum castor_optimizer {
  CASTOR_ADAM = 0,
  CASTOR_ADAMW = 1,
  CASTOR_SGD = 2, /* Since 1.6. Looks at lr, weight_decay, momentum and nesterov alone */
  CASTOR_LARS = 3, /* Since 1.6. SGD whose gradients are scaled by tensor: trust_coefficient and eps too */
  CASTOR_LAMB = 4 /* Since 1.9. Adam whose updates, decay included, are scaled by tensor; never with max_value */
} castor_optimizer;

/* Since 1.5. The values that a group's parameters have in place of those in castor_step_args. */
typedef struct castor_param_group {
  uint32_t struct_size;
  double lr, beta1, beta2, eps, weight_decay;

  double momentum, trust_coefficient; /* Since 1.6; 0 where struct_size ends before them */
} castor_param_group;

typedef struct castor_step_args {
  uint32_t struct_size;
  uint32_t optimizer; /* castor_optimizer; a number, as it may be one that this version does not know */
  double lr, beta1, beta2, eps, weight_decay;
  double max_norm;   /* global gradient norm to clip to; 0 = no clipping */
  double loss_scale; /* the loss was multiplied by this before backward; 1 = it was not */

  /* Since 1.5, to be read only where struct_size covers them; otherwise they count as 0. A plugin whose abi_minor is
   * 5 or more obeys them; the host sets neither for an older one. */
  double max_value;  /* each element of the unscaled gradient is clamped to [-max_value, max_value]; 0 = off.
                        Never together with max_norm */
  uint32_t n_groups; /* 0: the values above are those of every parameter. Else each belongs to a group, and lr,
                        beta1, beta2, eps and weight_decay above are ignored */
  const castor_param_group *const *groups; /* n_groups of them */
  const uint32_t *group_of;                /* by parameter: the number of its group, below n_groups */

  /* Since 1.6, likewise: the host asks an older plugin for no other optimizer than Adam and AdamW. */
  double momentum;          /* of SGD and LARS; groups have their own */
  double trust_coefficient; /* of LARS; groups have their own. 0 = SGD. Never together with max_value */
  int32_t nesterov;         /* of SGD and LARS, for all groups: 1 = Nesterov's momentum */
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

  /* Since 1.8. The least time of a step as far as the plugin knows it, and the name of the resource that sets it; 0
   * and null where it does not know. The name lives as long as the plugin. */
  double bound_seconds;
  const char *bound_by;
} castor_stats;

#define CASTOR_NOT_KEPT UINT32_MAX

/* Part of a parameter's checkpoint: its fp32 values number `first` to `first` + n - 1, in host memory. */
typedef struct castor_param_state {
  uint32_t struct_size;
  uint32_t param;
  uint64_t first, n;
  float *master;                /* n values, never null */
  float *exp_avg, *exp_avg_sq;  /* n values each, or null; ignored where the parameter is frozen. The momentum of SGD is
                                   in exp_avg, and its exp_avg_sq is ignored */
  uint64_t n_updates;           /* of the whole parameter: Adam's t */
} castor_param_state;

/* Since 1.7. The bytes of weights and states in a commit. */
typedef struct castor_commit_result {
  uint32_t struct_size;
  uint64_t written_bytes;    /* written to the folders by this commit */
  uint64_t referenced_bytes; /* were in the folders already, and stay where they are */
} castor_commit_result;

/* Since 1.7. The run that the folders hold. */
typedef struct castor_committed_run {
  uint32_t struct_size;
  int32_t exists; /* 0: none, and the other fields mean nothing */
  uint64_t step;
  const void *note; /* as it was given to commit, valid until the next call into the strategy */
  uint64_t n_note_bytes;
} castor_committed_run;

/* Required: attach, gradient, step, read_master, stats and destroy. The others may be null: nothing to do. */
typedef struct castor_strategy_v1 {
  uint32_t struct_size;
  void *self;

  /* Places every parameter and initialises it. Called once, before anything else. */
  castor_status (*attach)(void *self);

  /* Around each use of a unit. Recomputation calls before_forward and after_forward again, inside backward. A unit
   * whose input needs no gradient has no after_backward: end_of_backward closes it. */
  castor_status (*before_forward)(void *self, uint32_t unit);
  castor_status (*after_forward)(void *self, uint32_t unit);
  castor_status (*before_backward)(void *self, uint32_t unit);
  castor_status (*after_backward)(void *self, uint32_t unit);

  /* A gradient of the parameter's shape and dtype on the model's device, contiguous in row-major order. Ownership
   * moves, also when the call fails: the plugin calls grad->deleter (where it is not null) when it has read it.
   * Several gradients of one parameter within a step add up in fp32, in the order of arrival. */
  castor_status (*gradient)(void *self, uint32_t param, DLManagedTensor *grad);

  /* The backward pass of one micro-batch has ended. */
  castor_status (*end_of_backward)(void *self);

  /* Updates the parameters from the gradients gathered since the last step. A parameter without one is left alone:
   * moments, decay and counter. The norm of all gradients is taken where max_norm > 0 or loss_scale != 1; if it is
   * then not finite the step is skipped, which drops the gradients and advances no counter. Otherwise gradients are
   * not checked, so that a parameter may be updated before the last gradient has arrived. */
  castor_status (*step)(void *self, const castor_step_args *args, castor_step_result *out);

  /* Copies the parameter's fp32 master (numel values) to host memory. */
  castor_status (*read_master)(void *self, uint32_t param, float *out);

  castor_status (*stats)(void *self, castor_stats *out);

  /* Writes the events so far as a trace file (docs/trace.md). Null where the plugin keeps none. */
  castor_status (*write_trace)(void *self, const char *path);

  /* Releases everything, and unbinds all bound parameters. Nothing is called after it. */
  void (*destroy)(void *self);

  /* Since 1.2: all three or none. Offers `n_bytes` on the model's device that backward reads again and no operator
   * reads until then (the input of a part that is recomputed), as the compute stream has them now. The strategy
   * copies them, and may move the copy off the device; the host frees its own. *kept is the copy's number, or
   * CASTOR_NOT_KEPT where the host has to keep the bytes itself. */
  castor_status (*keep)(void *self, const void *data, uint64_t n_bytes, uint32_t *kept);
  /* Returns device memory with the bytes, for work queued on the compute stream until they are forgotten. */
  castor_status (*recall)(void *self, uint32_t kept, void **data);
  /* Drops the copy, whether recalled or not. Called once for each number that keep gave. */
  castor_status (*forget)(void *self, uint32_t kept);

  /* Since 1.3: announces the backward pass after which step will be called, with exactly these values. Where they
   * need no norm, the strategy may update a parameter as soon as its last gradient has arrived. */
  castor_status (*announce_step)(void *self, const castor_step_args *args);

  /* Since 1.4: both or none. Called between two steps, or between attach and the first. read_state fills the arrays
   * and n_updates; write_state takes them over and sets the weights from the masters. Values that one strategy has
   * read another takes over, wherever either keeps them; with all values of every parameter it continues with the
   * same bits. */
  castor_status (*read_state)(void *self, castor_param_state *state);
  castor_status (*write_state)(void *self, const castor_param_state *state);

  /* Since 1.7: all three or none, for strategies that can keep states in folders of their own so that they outlive
   * the process. Called between two steps, or between attach and the first. All three return CASTOR_USAGE where the
   * strategy's options do not turn this on.
   *
   * commit makes the current states, weights and counters of every parameter durable, as `step`, in one instant
   * together with `note`; it returns once they are durable. Until then, and where it fails, the last commit stays
   * valid, whenever the process or the machine stops. It is refused where the folders hold a run that this one does
   * not continue. */
  castor_status (*commit)(void *self, uint64_t step, const void *note, uint64_t n_note_bytes,
                          castor_commit_result *out);
  /* Finds the last commit in the folders, of this run or of an earlier one. */
  castor_status (*committed)(void *self, castor_committed_run *out);
  /* Continues from the commit that the folders held when the strategy was created, in place of initial values. */
  castor_status (*restore)(void *self);

  /* Since 1.12: drops the step under way, which has failed or was broken off: its gradients and its announcement. The
   * host then begins the step anew, from its first micro-batch, with the bits of a step that never broke. Refused with
   * CASTOR_FAILED where parameters have been updated already, since the model is then between two steps. */
  castor_status (*abandon_step)(void *self);
} castor_strategy_v1;

/* ---- the entry point ----------------------------------------------------------------------------------- */

typedef struct castor_plugin_info {
  uint32_t magic;       /* CASTOR_PLUGIN_MAGIC */
  uint32_t struct_size; /* sizeof(castor_plugin_info) as the plugin was compiled */
  uint16_t abi_major;   /* CASTOR_ABI_MAJOR */
  uint16_t abi_minor;   /* CASTOR_ABI_MINOR */
  uint32_t n_options;
  uint64_t capabilities; /* CASTOR_CAP_* */
  const char *build_tag; /* LibTorch version and C++ ABI where CASTOR_CAP_LINKS_TORCH is set, else "" */
  const char *name;
  const char *version;
  const char *summary; /* one line for `castor plugins list` */
  const castor_option *options;

  /* `values` holds each option of the schema once, retired ones left out; it is valid during the call only. Options
   * that cannot be combined are refused here (CASTOR_USAGE), not at step 40. The host's table outlives the strategy;
   * `*out` belongs to the plugin until its destroy. */
  castor_status (*create)(const castor_host_v1 *host, const castor_option_value *values, size_t n_values,
                          const castor_strategy_v1 **out);
} castor_plugin_info;

#define CASTOR_PLUGIN_ENTRY "castor_plugin_query_v1"

#if defined(__GNUC__)
#define CASTOR_PLUGIN_EXPORT __attribute__((visibility("default")))
#else
#define CASTOR_PLUGIN_EXPORT
#endif

/* The one function that a plugin exports. */
CASTOR_PLUGIN_EXPORT const castor_plugin_info *castor_plugin_query_v1(void);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* CASTOR_PLUGINS_ABI_H_ */
