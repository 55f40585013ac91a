/* SPDX-License-Identifier: Apache-2.0 */
/* GPipe in plain C11 over the stage driver of ABI 2 (Huang et al. 2019): one stage a rank, all micro-batches forward,
 * then all backward, the last one first. It shows that the ABI is enough for pipelines; fp32 parameters in host memory
 * and plain SGD, no more. */
#include <stdlib.h>
#include <string.h>

#include "proof.h"

enum { MAX_DIMS = 7 };
static const DLDataType INT64 = {kDLInt, 64, 1};

typedef struct tensor {
  uint64_t numel;
  float *weight, *grad;
  int has_grad;
} tensor;

typedef struct trainer {
  castor_strategy_v2 table;
  const castor_host_v2 *host;
  uint32_t rank, size, stage, n_tensors;
  tensor *tensors;
  uint64_t n_steps;
} trainer;

/* ---- tensors between ranks: their shape, then their elements -------------------------------------------- */

/* A tensor that owns its shape and elements. */
typedef struct parcel {
  DLManagedTensor managed;
  int64_t shape[1 + MAX_DIMS]; /* number of dimensions, then their extents */
  float *elements;
} parcel;

static void delete_parcel(DLManagedTensor *managed) {
  parcel *self = managed->manager_ctx;
  free(self->elements);
  free(self);
}

static uint64_t numel_of(const int64_t *extents, int64_t ndim) {
  uint64_t n = 1;
  for (int64_t i = 0; i < ndim; ++i) n *= (uint64_t)extents[i];
  return n;
}

static castor_status carry(trainer *self, int sends, uint32_t peer, void *data, DLDataType dtype, uint64_t n) {
  const castor_host_v2 *host = self->host;
  const castor_collective call = {.struct_size = sizeof call, .group = WORLD, .send = data, .recv = data,
                                  .dtype = dtype, .n = n, .peer = peer};
  return sends ? host->groups->send(host->self, &call) : host->groups->recv(host->self, &call);
}

static castor_status send_tensor(trainer *self, uint32_t peer, const DLTensor *tensor) {
  int64_t shape[1 + MAX_DIMS] = {tensor->ndim};
  if (tensor->ndim > MAX_DIMS)
    return stub_fail(self->host, CASTOR_USAGE, "gpipe: a tensor between stages has too many dimensions");
  memcpy(shape + 1, tensor->shape, (size_t)tensor->ndim * sizeof *shape);
  const castor_status status = carry(self, 1, peer, shape, INT64, 1 + MAX_DIMS);
  char *const data = (char *)tensor->data + tensor->byte_offset;
  return status == CASTOR_OK ? carry(self, 1, peer, data, FP32, numel_of(tensor->shape, tensor->ndim)) : status;
}

static castor_status recv_tensor(trainer *self, uint32_t peer, DLManagedTensor **out) {
  parcel *made = calloc(1, sizeof *made);
  if (!made) return no_memory(self->host);
  made->managed.manager_ctx = made, made->managed.deleter = delete_parcel;
  castor_status status = carry(self, 0, peer, made->shape, INT64, 1 + MAX_DIMS);
  const uint64_t n = status == CASTOR_OK ? numel_of(made->shape + 1, made->shape[0]) : 0;
  made->elements = malloc((n + 1) * sizeof(float));
  if (status == CASTOR_OK && !made->elements)
    status = no_memory(self->host);
  if (status == CASTOR_OK) status = carry(self, 0, peer, made->elements, FP32, n);
  const DLTensor tensor = {made->elements, {kDLCPU, 0}, (int32_t)made->shape[0], FP32, made->shape + 1, NULL, 0};
  made->managed.dl_tensor = tensor;
  if (status != CASTOR_OK) return delete_parcel(&made->managed), status;
  *out = &made->managed;
  return CASTOR_OK;
}

/* ---- the schedule -------------------------------------------------------------------------------------- */

/* Takes a tensor from rank `from`, runs the action with it, and hands its result to rank `to`; CASTOR_NONE: there is
 * no such rank. */
static castor_status run(trainer *self, uint32_t action, uint32_t micro_batch, uint32_t from, uint32_t to,
                         double *loss) {
  const castor_host_v2 *host = self->host;
  DLManagedTensor *in = NULL;
  castor_status status = from == CASTOR_NONE ? CASTOR_OK : recv_tensor(self, from, &in);
  castor_stage_call call = {.struct_size = sizeof call, .action = action, .stage = self->stage,
                            .micro_batch = micro_batch, .n_in = in ? 1 : 0, .in = &in};
  if (status == CASTOR_OK) status = host->stages->run_stage(host->self, &call);
  if (status != CASTOR_OK) return status;
  if (loss) *loss += call.loss;
  if (to != CASTOR_NONE && call.n_out != 1)
    status = stub_fail(host, CASTOR_PLUGIN, "gpipe: a stage returns one tensor");
  if (to != CASTOR_NONE && status == CASTOR_OK) status = send_tensor(self, to, &call.out[0]->dl_tensor);
  for (uint32_t i = 0; i < call.n_out; ++i) call.out[i]->deleter(call.out[i]);
  return status;
}

static castor_status run_step(void *opaque, castor_pipeline_step *step) {
  trainer *self = opaque;
  const int first = self->rank == 0, last = self->rank + 1 == self->size;
  const uint32_t before = first ? CASTOR_NONE : self->rank - 1, after = last ? CASTOR_NONE : self->rank + 1;
  castor_status status = CASTOR_OK;
  step->loss = 0;
  for (uint32_t micro = 0; micro < step->n_micro_batches && status == CASTOR_OK; ++micro)
    status = run(self, CASTOR_FORWARD, micro, before, after, last ? &step->loss : NULL);
  if (step->evaluation) return status;
  for (uint32_t micro = step->n_micro_batches; micro-- > 0 && status == CASTOR_OK;)
    status = run(self, CASTOR_BACKWARD, micro, after, before, NULL);
  return status;
}

/* ---- parameters: plain SGD ----------------------------------------------------------------------------- */

static castor_status attach(void *opaque) {
  trainer *self = opaque;
  const castor_host_v2 *host = self->host;
  castor_status status = CASTOR_OK;
  for (uint32_t i = 0; i < self->n_tensors && status == CASTOR_OK; ++i) {
    tensor *t = &self->tensors[i];
    t->weight = aligned_floats(t->numel);
    t->grad = calloc(t->numel + 1, sizeof(float));
    if (!t->weight || !t->grad) return no_memory(host);
    const castor_values all = {sizeof all, i, 0, t->numel, CASTOR_FP32, t->weight};
    status = host->model->first_values(host->self, &all);
    if (status == CASTOR_OK) status = host->model->bind(host->self, i, t->weight);
  }
  return status;
}

static castor_status gradient(void *opaque, uint32_t param, DLManagedTensor *grad) {
  tensor *t = &((trainer *)opaque)->tensors[param];
  const float *data = (const float *)((const char *)grad->dl_tensor.data + grad->dl_tensor.byte_offset);
  for (uint64_t i = 0; i < t->numel; ++i) t->grad[i] += data[i];
  t->has_grad = 1;
  if (grad->deleter) grad->deleter(grad);
  return CASTOR_OK;
}

static castor_status begin_step(void *opaque, const castor_step_args *args, uint64_t *ticket) {
  trainer *self = opaque;
  if (args->optimizer != CASTOR_SGD || args->momentum != 0 || args->n_groups > 0 || args->max_norm != 0)
    return stub_fail(self->host, CASTOR_USAGE, "gpipe knows plain SGD and no more");
  for (uint32_t i = 0; i < self->n_tensors; ++i) {
    tensor *t = &self->tensors[i];
    for (uint64_t k = 0; t->has_grad && k < t->numel; ++k) t->weight[k] -= (float)args->lr * t->grad[k];
    memset(t->grad, 0, t->numel * sizeof(float));
    t->has_grad = 0;
  }
  *ticket = ++self->n_steps;
  return CASTOR_OK;
}

static castor_status step_result(void *opaque, uint64_t ticket, castor_step_result *out) {
  (void)opaque, (void)ticket;
  out->skipped = 0, out->grad_norm = -1;
  return CASTOR_OK;
}

static castor_status read_masters(void *opaque, const castor_values *out) {
  const tensor *t = &((const trainer *)opaque)->tensors[out->param];
  memcpy(out->data, t->weight + out->first, (out->n == CASTOR_ALL ? t->numel - out->first : out->n) * sizeof(float));
  return CASTOR_OK;
}

static void destroy(void *opaque) {
  trainer *self = opaque;
  for (uint32_t i = 0; i < self->n_tensors; ++i) {
    if (self->tensors[i].weight) self->host->model->unbind(self->host->self, i, "gpipe has ended");
    free(self->tensors[i].weight), free(self->tensors[i].grad);
  }
  free(self->tensors);
  free(self);
}

static const castor_steps_v2 STEPS = {.struct_size = sizeof STEPS,
                                      .attach = attach,
                                      .gradient = gradient,
                                      .begin_step = begin_step,
                                      .step_result = step_result,
                                      .run_step = run_step,
                                      .stats = no_stats};
static const castor_values_v2 VALUES = {.struct_size = sizeof VALUES, .read_masters = read_masters};

static castor_status fill(trainer *self) {
  const castor_host_v2 *host = self->host;
  castor_group_info world = {.struct_size = sizeof world};
  uint32_t n_stages = 0;
  const uint32_t *stages = NULL;
  if (!host->groups || !host->stages)
    return stub_fail(host, CASTOR_USAGE, "gpipe needs the stages of a pipeline, and there are none");
  castor_status status = host->groups->group_info(host->self, WORLD, &world);
  if (status == CASTOR_OK) status = host->stages->held_stages(host->self, &n_stages, &stages);
  if (status == CASTOR_OK && (n_stages != 1 || stages[0] != world.rank))
    status = stub_fail(host, CASTOR_USAGE, "gpipe takes one stage a rank, in the order of ranks");
  if (status != CASTOR_OK) return status;
  self->rank = world.rank, self->size = world.size, self->stage = stages[0];
  for (uint32_t i = 0; i < self->n_tensors && status == CASTOR_OK; ++i) {
    castor_param_info info = {.struct_size = sizeof info};
    status = host->model->param_info(host->self, i, &info);
    self->tensors[i].numel = info.numel;
  }
  return status;
}

static castor_status create(const castor_host_v2 *host, const castor_option_value *const *values, size_t n_values,
                            const castor_strategy_v2 **out) {
  (void)values, (void)n_values;
  trainer *self = calloc(1, sizeof *self);
  if (!self) return no_memory(host);
  self->host = host;
  self->n_tensors = host->model->n_params(host->self);
  self->tensors = calloc(self->n_tensors + 1u, sizeof *self->tensors);
  const castor_strategy_v2 table = {
      .struct_size = sizeof table, .self = self, .steps = &STEPS, .values = &VALUES, .destroy = destroy};
  self->table = table;
  const castor_status status =
      self->tensors ? fill(self) : no_memory(host);
  if (status == CASTOR_OK) *out = &self->table;
  if (status != CASTOR_OK) self->n_tensors = self->tensors ? self->n_tensors : 0, destroy(self);
  return status;
}

STUB("gpipe", .capabilities = CASTOR_CAP_CPU | CASTOR_CAP_RANKS | CASTOR_CAP_STAGES,
     .summary = "a pipeline of one stage a rank, in plain C11: a proof for the tests", .create = create)
