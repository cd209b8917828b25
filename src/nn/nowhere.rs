//! Frozen parameters whose numbers are not in memory.

use burn::module::Param;
use burn::tensor::{DType, Device, FloatDType, Shape, Tensor};

/// Returns a frozen parameter of the same id and shape that takes no memory. Records have the numbers that `decoded`
/// returns in the shape of the parameter.
pub(super) fn base<const D: usize>(
    param: &Param<Tensor<D>>,
    dtype: DType,
    decoded: impl Fn(&Device, DType) -> Tensor<D> + Clone + Send + Sync + 'static,
) -> Param<Tensor<D>> {
    let shape = param.lazy_shape();
    let of_shape = shape.clone();
    let base = Param::uninitialized(
        param.id,
        move |device, is_required| nowhere(device, dtype, &of_shape).set_require_grad(is_required),
        param.lazy_device(),
        false,
        shape,
    );
    let loaded = decoded.clone();
    base.save_mapper(move |base: Tensor<D>| {
        // A tensor that `materialize` made of it is saved as it is.
        let first = base.clone().slice(std::array::from_fn::<_, D, _>(|_| 0..1)).into_scalar::<f32>();
        match first.is_nan() {
            true => decoded(&base.device(), base.dtype()),
            false => base,
        }
    })
    .load_mapper(move |record: Tensor<D>| {
        let own = loaded(&record.device(), dtype);
        let other = record.clone().cast(FloatDType::from(dtype));
        assert!(
            own.into_data() == other.into_data(),
            "a record holds other numbers than the quantised weight of a layer, which can't take them; load the \
             model with decoded weights, and the record into that"
        );
        record
    })
}

/// Returns a tensor of one number, NaN, in every place.
fn nowhere<const D: usize>(device: &Device, dtype: DType, shape: &Shape) -> Tensor<D> {
    Tensor::<D>::full([1; D], f32::NAN, (device, dtype)).expand(shape.clone())
}
