use super::super::sort::by_expert;
use crate::kernel::rounded;
use crate::ops::{compute_dtype, same_dtype_as};
use burn::tensor::{IndexingUpdateOp, Int, Tensor, TensorData};

/// Computes the experts of a mixture with a function of the caller: `expert(e, rows)` takes the rows
/// `[n, H]` of expert `e`, in the order of the tokens, and returns as many. It is called
/// for experts with at least one row, in their order. Use it for experts whose projections are layers
/// that a kernel must not read directly, such as quantised layers or layers with an adapter.
///
/// `x` is `[T, H]`, `indices` and `routing` are `[T, k]`. The result has the shape and dtype of `x`. It is the
/// weighted sum of the experts' results, summed in f32 (f64 for f64 tensors) and rounded once. Index `experts`
/// means an expert on another device, which adds nothing.
///
/// Reads the indices once, which waits for the device.
///
/// # Panics
/// Panics if the shapes don't fit together, if an index is below 0 or above `experts`, or if a result of `expert`
/// has another shape than its rows.
pub fn each(
    x: Tensor<2>,
    indices: Tensor<2, Int>,
    routing: Tensor<2>,
    experts: usize,
    mut expert: impl FnMut(usize, Tensor<2>) -> Tensor<2>,
) -> Tensor<2> {
    let ([tokens, hidden], [rows, choices]) = (x.dims(), indices.dims());
    assert!(
        rows == tokens && routing.dims() == [rows, choices],
        "experts: x has {tokens} tokens, the indices are {:?} and the routing weights {:?}; both \
         must be [{tokens}, k]",
        [rows, choices],
        routing.dims(),
    );
    let (dtype, device) = (x.dtype(), x.device());
    if choices == 0 || (hidden == 0 && tokens > u32::MAX as usize) {
        // There may be more tokens without elements than there is memory for their choices.
        return Tensor::zeros([tokens, hidden], (&device, dtype));
    }
    let groups = by_expert(&indices.into_data(), experts);
    let compute = compute_dtype(dtype);
    let routing = same_dtype_as(routing, compute).reshape([tokens * choices, 1]);
    let mut sum = Tensor::<2>::zeros([tokens, hidden], (&device, compute));
    for e in 0..experts {
        let slots = &groups.slots()[groups.of(e)];
        if slots.is_empty() {
            continue;
        }
        let positions = |each: &dyn Fn(usize) -> usize| -> Tensor<1, Int> {
            let values: Vec<i64> = slots.iter().map(|s| each(*s as usize) as i64).collect();
            let count = values.len();
            Tensor::from_data(TensorData::new(values, [count]), &device.clone().inner())
        };
        let (slot, token) = (positions(&|s| s), positions(&|s| s / choices));
        let out = expert(e, x.clone().select(0, token.clone()));
        assert!(
            out.dims() == [slots.len(), hidden],
            "experts: expert {e} made {:?} of rows [{}, {hidden}]",
            out.dims(),
            slots.len(),
        );
        let weighted = rounded(same_dtype_as(out, compute)) * routing.clone().select(0, slot);
        sum = sum.select_assign(0, token, weighted, IndexingUpdateOp::Add);
    }
    same_dtype_as(sum, dtype)
}
