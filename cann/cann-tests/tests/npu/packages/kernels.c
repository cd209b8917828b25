/* RMSNorm, LayerNorm and SwiGLU on NPUs: host functions that put their work on a stream through CANN. */

typedef struct aclTensor aclTensor;
typedef struct aclIntArray aclIntArray;
typedef struct aclBoolArray aclBoolArray;
typedef struct aclOpExecutor aclOpExecutor;
aclTensor *aclCreateTensor(const int64_t *shape, uint64_t axes, int type, const int64_t *strides, int64_t offset,
                           int format, const int64_t *storage, uint64_t storage_axes, void *data);
int aclDestroyTensor(const aclTensor *tensor);
aclIntArray *aclCreateIntArray(const int64_t *values, uint64_t count);
int aclDestroyIntArray(const aclIntArray *array);
aclBoolArray *aclCreateBoolArray(const _Bool *values, uint64_t count);
int aclDestroyBoolArray(const aclBoolArray *array);
int aclnnRmsNormGetWorkspaceSize(const aclTensor *x, const aclTensor *gamma, double eps, const aclTensor *y,
                                 const aclTensor *rstd, uint64_t *bytes, aclOpExecutor **executor);
int aclnnRmsNorm(void *workspace, uint64_t bytes, aclOpExecutor *executor, void *stream);
int aclnnRmsNormGradGetWorkspaceSize(const aclTensor *dy, const aclTensor *x, const aclTensor *rstd,
                                     const aclTensor *gamma, const aclTensor *dx, const aclTensor *dgamma,
                                     uint64_t *bytes, aclOpExecutor **executor);
int aclnnRmsNormGrad(void *workspace, uint64_t bytes, aclOpExecutor *executor, void *stream);
int aclnnLayerNormGetWorkspaceSize(const aclTensor *x, const aclIntArray *shape, const aclTensor *weight,
                                   const aclTensor *bias, double eps, aclTensor *y, aclTensor *mean, aclTensor *rstd,
                                   uint64_t *bytes, aclOpExecutor **executor);
int aclnnLayerNorm(void *workspace, uint64_t bytes, aclOpExecutor *executor, void *stream);
int aclnnLayerNormBackwardGetWorkspaceSize(const aclTensor *dy, const aclTensor *x, const aclIntArray *shape,
                                           const aclTensor *mean, const aclTensor *rstd, const aclTensor *weight,
                                           const aclTensor *bias, const aclBoolArray *wanted, aclTensor *dx,
                                           aclTensor *dweight, aclTensor *dbias, uint64_t *bytes,
                                           aclOpExecutor **executor);
int aclnnLayerNormBackward(void *workspace, uint64_t bytes, aclOpExecutor *executor, void *stream);
int aclnnSwiGluGetWorkspaceSize(const aclTensor *x, int64_t axis, const aclTensor *y, uint64_t *bytes,
                                aclOpExecutor **executor);
int aclnnSwiGlu(void *workspace, uint64_t bytes, aclOpExecutor *executor, void *stream);
int aclnnSwiGluGradGetWorkspaceSize(const aclTensor *dy, const aclTensor *x, int64_t axis, const aclTensor *dx,
                                    uint64_t *bytes, aclOpExecutor **executor);
int aclnnSwiGluGrad(void *workspace, uint64_t bytes, aclOpExecutor *executor, void *stream);

#ifndef SHIFT
#define SHIFT 0
#endif

enum { ROOM = 1 << 18, FLOAT = 0, BF16 = 27, ND = 2 };

static int is(const Any *any, int code, int bits) {
  const Tensor *t = any->value.pointer;
  return any->type == 7 && t->device[0] == 12 && t->code == code && t->bits == bits;
}

static int on_npu(const Any *any) { return is(any, 2, 32); }

static int on_npu_or_half(const Any *any) { return on_npu(any) || is(any, 4, 16); }

static aclTensor *over(const Any *like, void *data) {
  const Tensor *t = like->value.pointer;
  return aclCreateTensor(t->shape, t->axes, t->code == 4 ? BF16 : FLOAT, t->strides, 0, ND, t->shape, t->axes, data);
}

static aclTensor *made(const Any *any) { return over(any, ((const Tensor *)any->value.pointer)->data); }

static int ended(int code, aclTensor **tensors, int count) {
  for (int i = 0; i < count; i++)
    if (tensors[i]) aclDestroyTensor(tensors[i]);
  return code ? fail("CANN refused the call") : 0;
}

/* x, weight, eps, y, rstd: the bytes of the workspace */
int __tvm_ffi_rms_norm_room(void *self, const Any *a, int32_t n, Any *result) {
  if (n != 5 || !on_npu(a)) return fail("rms_norm_room takes the arguments of rms_norm without stream and workspace");
  result->type = 1;
  result->value.integer = ROOM;
  return 0;
}

/* x, weight, eps, y, rstd, workspace, stream */
int __tvm_ffi_rms_norm(void *self, const Any *a, int32_t n, Any *result) {
  if (n != 7 || !on_npu(a) || !on_npu(a + 1) || a[2].type != 3 || !on_npu(a + 3) || !on_npu(a + 4) ||
      a[5].type != 4 || a[6].type != 4)
    return fail("rms_norm takes x, weight, eps, y and rstd in f32 on an NPU, a workspace and a stream");
  const Tensor *t = a[0].value.pointer;
  if (t->shape[t->axes - 1] == 13) return fail("rows of 13 are not supported");
  aclTensor *tensors[] = {made(a), made(a + 1), made(a + 3), made(a + 4)};
  uint64_t bytes = 0;
  aclOpExecutor *executor = 0;
  int code = aclnnRmsNormGetWorkspaceSize(tensors[0], tensors[1], a[2].value.real + SHIFT, tensors[2], tensors[3],
                                          &bytes, &executor);
  if (!code && bytes > ROOM) code = 1;
  if (!code) code = aclnnRmsNorm(a[5].value.pointer, bytes, executor, a[6].value.pointer);
  return ended(code, tensors, 4);
}

/* x, weight, rstd, dy, dx, dw, workspace, stream; dx and dw may be null */
int __tvm_ffi_rms_norm_backward(void *self, const Any *a, int32_t n, Any *result) {
  if (n != 8 || a[6].type != 4 || a[7].type != 4) return fail("rms_norm_backward takes a workspace and a stream");
  char *room = a[6].value.pointer;
  aclTensor *tensors[] = {made(a + 3), made(a), made(a + 2), made(a + 1),
                          a[4].type ? made(a + 4) : over(a, room + ROOM),
                          a[5].type ? made(a + 5) : over(a + 1, room + 2 * ROOM)};
  uint64_t bytes = 0;
  aclOpExecutor *executor = 0;
  int code = aclnnRmsNormGradGetWorkspaceSize(tensors[0], tensors[1], tensors[2], tensors[3], tensors[4], tensors[5],
                                              &bytes, &executor);
  if (!code && bytes > ROOM) code = 1;
  if (!code) code = aclnnRmsNormGrad(room, bytes, executor, a[7].value.pointer);
  return ended(code, tensors, 6);
}

static aclIntArray *last_axis(const Any *x) {
  const Tensor *t = x->value.pointer;
  return aclCreateIntArray(t->shape + t->axes - 1, 1);
}

/* x, weight, bias, eps, y, mean, rstd, workspace, stream */
int __tvm_ffi_layer_norm(void *self, const Any *a, int32_t n, Any *result) {
  if (n != 9 || !on_npu_or_half(a) || !on_npu_or_half(a + 1) || !on_npu_or_half(a + 2) || a[3].type != 3 ||
      !on_npu_or_half(a + 4) || !on_npu(a + 5) || !on_npu(a + 6) || a[7].type != 4 || a[8].type != 4)
    return fail("layer_norm takes x, weight, bias, eps, y, mean and rstd on an NPU, a workspace and a stream");
  aclTensor *tensors[] = {made(a), made(a + 1), made(a + 2), made(a + 4), made(a + 5), made(a + 6)};
  aclIntArray *axes = last_axis(a);
  uint64_t bytes = 0;
  aclOpExecutor *executor = 0;
  int code = aclnnLayerNormGetWorkspaceSize(tensors[0], axes, tensors[1], tensors[2], a[3].value.real, tensors[3],
                                            tensors[4], tensors[5], &bytes, &executor);
  if (!code && bytes > ROOM) code = 1;
  if (!code) code = aclnnLayerNorm(a[7].value.pointer, bytes, executor, a[8].value.pointer);
  aclDestroyIntArray(axes);
  return ended(code, tensors, 6);
}

/* x, weight, bias, mean, rstd, dy, dx, dweight, dbias, workspace, stream; gradients may be null */
int __tvm_ffi_layer_norm_backward(void *self, const Any *a, int32_t n, Any *result) {
  if (n != 11 || a[9].type != 4 || a[10].type != 4) return fail("layer_norm_backward takes a workspace and a stream");
  aclTensor *tensors[9];
  for (int i = 0; i < 9; i++) tensors[i] = a[i].type ? made(a + i) : 0;
  _Bool wanted[] = {a[6].type != 0, a[7].type != 0, a[8].type != 0};
  aclBoolArray *mask = aclCreateBoolArray(wanted, 3);
  aclIntArray *axes = last_axis(a);
  uint64_t bytes = 0;
  aclOpExecutor *executor = 0;
  int code = aclnnLayerNormBackwardGetWorkspaceSize(tensors[5], tensors[0], axes, tensors[3], tensors[4], tensors[1],
                                                    tensors[2], mask, tensors[6], tensors[7], tensors[8], &bytes,
                                                    &executor);
  if (!code && bytes > ROOM) code = 1;
  if (!code) code = aclnnLayerNormBackward(a[9].value.pointer, bytes, executor, a[10].value.pointer);
  aclDestroyIntArray(axes);
  aclDestroyBoolArray(mask);
  return ended(code, tensors, 9);
}

/* gate and up in one tensor, y, workspace, stream */
int __tvm_ffi_swiglu(void *self, const Any *a, int32_t n, Any *result) {
  if (n != 4 || !on_npu_or_half(a) || !on_npu_or_half(a + 1) || a[2].type != 4 || a[3].type != 4)
    return fail("swiglu takes gate and up in one tensor and y on an NPU, a workspace and a stream");
  aclTensor *tensors[] = {made(a), made(a + 1)};
  uint64_t bytes = 0;
  aclOpExecutor *executor = 0;
  int code = aclnnSwiGluGetWorkspaceSize(tensors[0], -1, tensors[1], &bytes, &executor);
  if (!code && bytes > ROOM) code = 1;
  if (!code) code = aclnnSwiGlu(a[2].value.pointer, bytes, executor, a[3].value.pointer);
  return ended(code, tensors, 2);
}

/* gate and up in one tensor, dy, their gradient, workspace, stream */
int __tvm_ffi_swiglu_backward(void *self, const Any *a, int32_t n, Any *result) {
  if (n != 5 || a[3].type != 4 || a[4].type != 4) return fail("swiglu_backward takes a workspace and a stream");
  aclTensor *tensors[] = {made(a), made(a + 1), made(a + 2)};
  uint64_t bytes = 0;
  aclOpExecutor *executor = 0;
  int code = aclnnSwiGluGradGetWorkspaceSize(tensors[1], tensors[0], -1, tensors[2], &bytes, &executor);
  if (!code && bytes > ROOM) code = 1;
  if (!code) code = aclnnSwiGluGrad(a[3].value.pointer, bytes, executor, a[4].value.pointer);
  return ended(code, tensors, 3);
}
