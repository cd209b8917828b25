/* RMSNorm on NPUs: host functions that put their work on a stream through CANN. */

typedef struct aclTensor aclTensor;
typedef struct aclOpExecutor aclOpExecutor;
aclTensor *aclCreateTensor(const int64_t *shape, uint64_t axes, int type, const int64_t *strides, int64_t offset,
                           int format, const int64_t *storage, uint64_t storage_axes, void *data);
int aclDestroyTensor(const aclTensor *tensor);
int aclnnRmsNormGetWorkspaceSize(const aclTensor *x, const aclTensor *gamma, double eps, const aclTensor *y,
                                 const aclTensor *rstd, uint64_t *bytes, aclOpExecutor **executor);
int aclnnRmsNorm(void *workspace, uint64_t bytes, aclOpExecutor *executor, void *stream);
int aclnnRmsNormGradGetWorkspaceSize(const aclTensor *dy, const aclTensor *x, const aclTensor *rstd,
                                     const aclTensor *gamma, const aclTensor *dx, const aclTensor *dgamma,
                                     uint64_t *bytes, aclOpExecutor **executor);
int aclnnRmsNormGrad(void *workspace, uint64_t bytes, aclOpExecutor *executor, void *stream);

#ifndef SHIFT
#define SHIFT 0
#endif

enum { ROOM = 1 << 18, FLOAT = 0, ND = 2 };

static int on_npu(const Any *any) {
  const Tensor *t = any->value.pointer;
  return any->type == 7 && t->device[0] == 12 && t->code == 2 && t->bits == 32;
}

static aclTensor *over(const Any *like, void *data) {
  const Tensor *t = like->value.pointer;
  return aclCreateTensor(t->shape, t->axes, FLOAT, t->strides, 0, ND, t->shape, t->axes, data);
}

static aclTensor *made(const Any *any) { return over(any, ((const Tensor *)any->value.pointer)->data); }

static int ended(int code, aclTensor **tensors, int count) {
  for (int i = 0; i < count; i++) aclDestroyTensor(tensors[i]);
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
