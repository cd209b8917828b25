//! The backward pass.

use super::call::{Call, Places};
use super::{STATISTICS, kernels};
use crate::gpu::launch::{
    contiguous, cubes, cubes_of, dim, uninitialised, uninitialised_as, units, with_rows, zeros_as,
};
use crate::ops::attention::{Attention, Each, Sizes};
use crate::ops::fused::Backward;
use burn::backend::{Shape, TensorMetadata};
use burn_cubecl::tensor::CubeTensor;

/// Tensors that share memory begin at a multiple of so many elements. They are bindings of kernels, whose places in memory are
/// multiples of 256 bytes on WebGPU, and elements of half types have two.
const MULTIPLE: usize = 128;

/// Returns the gradients of queries, keys and values, and of sinks if there are any.
pub(super) fn gradients(backward: Backward<Attention, CubeTensor>) -> Each<Option<CubeTensor>> {
    let [y, lse] = backward.saved().clone();
    let (operands, dy, ..) = backward.into_parts();
    let [dy, y] = [dy, y].map(with_rows);
    let call = Call::with(operands, [&dy, &y]);
    let operands = &call.operands;
    if call.is_empty() {
        let zeros = |tensor: &CubeTensor| zeros_as(tensor, tensor.shape(), tensor.dtype);
        return Each {
            q: Some(zeros(operands.q())),
            k: Some(zeros(operands.k())),
            v: Some(zeros(operands.v())),
            bias: None,
            sinks: operands.sinks().map(zeros),
        };
    }
    let statistics = match call.is_rounded() {
        false => statistics(&call, &dy, &y, contiguous(lse)),
        true => statistics_without_sums(&call, contiguous(lse)),
    };
    let mut given = Given {
        call: &call,
        dy,
        statistics,
    };
    if call.is_rounded() {
        given.statistics = given.with_sums();
    }
    let (dq, [dk, dv]) = (given.of_queries(), given.of_keys());
    Each {
        q: Some(dq),
        k: Some(dk),
        v: Some(dv),
        bias: None,
        sinks: operands.sinks().map(|sinks| given.of_sinks(sinks)),
    }
}

/// Returns the statistics of each query, as the kernels over queries and keys read them.
fn statistics(call: &Call, dy: &CubeTensor, y: &CubeTensor, lse: CubeTensor) -> CubeTensor {
    let count = lse.shape().num_elements();
    let statistics = uninitialised(y, Shape::new([count * STATISTICS]));
    let places = Places {
        dy: Some(dy),
        y: Some(y),
        ..Places::default()
    };
    let units = call.units();
    // SAFETY: the result and its gradient have a row of `value_vectors` vectors for each query of each head, where the strides
    // say, which the size of a vector divides. `lse` has a number for each, the statistics have a vector, and the ranges two
    // numbers for each query of a sequence. Cubes beyond the queries end at once.
    unsafe {
        kernels::row_statistics::launch_unchecked(
            &y.client,
            call.cubes_of_queries(),
            dim(units),
            call.size,
            y.clone().into_tensor_arg(),
            dy.clone().into_tensor_arg(),
            lse.into_buffer_arg(),
            call.ranges.clone().into_buffer_arg(),
            statistics.clone().into_buffer_arg(),
            call.numbers(places),
            call.sizes().group(),
            units,
            call.element(),
        );
    }
    statistics
}

/// Returns the statistics of each query but for the sum along its result.
fn statistics_without_sums(call: &Call, lse: CubeTensor) -> CubeTensor {
    let count = lse.shape().num_elements();
    let statistics = uninitialised(&lse, Shape::new([count * STATISTICS]));
    let (cubes, dim) = cubes_of(&lse, units(count), count);
    // SAFETY: `lse` has a number for each query of each head, the statistics have a vector, and the ranges two numbers for each
    // query of a sequence. Units beyond the queries end at once.
    unsafe {
        kernels::statistics_without_sums::launch_unchecked(
            &statistics.client,
            cubes,
            dim,
            lse.into_buffer_arg(),
            call.ranges.clone().into_buffer_arg(),
            statistics.clone().into_buffer_arg(),
            call.numbers(Places::default()),
            call.sizes().group(),
        );
    }
    statistics
}

/// A call with the gradient of its result, and the statistics of its queries.
struct Given<'a> {
    call: &'a Call,
    dy: CubeTensor,
    statistics: CubeTensor,
}

impl Given<'_> {
    /// Returns the statistics with the sums along the results.
    fn with_sums(&self) -> CubeTensor {
        let (call, q) = (self.call, self.call.operands.q());
        let with_sums = uninitialised(q, self.statistics.shape());
        let rows = call.rows();
        let form = call.heads().sums(rows);
        let [q_rows, k_rows, v_rows] = call.arguments();
        let places = Places {
            dy: Some(&self.dy),
            ..Places::default()
        };
        // SAFETY: as in `Call::forward`; the gradient of the result has the rows of the result, and there are two vectors of
        // statistics for each query of each head, one to read and one to write.
        unsafe {
            kernels::sums_along::launch_unchecked(
                &q.client,
                call.cubes(rows, form),
                dim(form.units()),
                call.size,
                q_rows,
                k_rows,
                v_rows,
                self.dy.clone().into_tensor_arg(),
                self.statistics.clone().into_buffer_arg(),
                call.bias().into(),
                with_sums.clone().into_buffer_arg(),
                call.numbers(places),
                form,
                call.element(),
            );
        }
        with_sums
    }

    fn of_queries(&self) -> CubeTensor {
        let (call, q) = (self.call, self.call.operands.q());
        let dq = uninitialised_as(q, q.shape(), q.dtype);
        let rows = call.rows();
        let form = call.heads().queries(rows);
        let [q_rows, k_rows, v_rows] = call.arguments();
        let places = Places {
            dy: Some(&self.dy),
            dq: Some(&dq),
            ..Places::default()
        };
        // SAFETY: as in `Call::forward`; the gradient of the result has the rows of the result, that of the queries those of
        // the queries, and there is a vector of statistics for each query of each head.
        unsafe {
            kernels::query_gradients::launch_unchecked(
                &q.client,
                call.cubes(rows, form),
                dim(form.units()),
                call.size,
                q_rows,
                k_rows,
                v_rows,
                self.dy.clone().into_tensor_arg(),
                self.statistics.clone().into_buffer_arg(),
                call.bias().into(),
                dq.clone().into_buffer_arg(),
                call.numbers(places),
                form,
                call.element(),
            );
        }
        dq
    }

    /// Returns the gradients of keys and values. They share memory, because a kernel has no more than seven tensors.
    fn of_keys(&self) -> [CubeTensor; 2] {
        let (call, operands) = (self.call, &self.call.operands);
        let (k, v) = (operands.k(), operands.v());
        let of_values = k.shape().num_elements().next_multiple_of(MULTIPLE);
        let all = of_values + v.shape().num_elements();
        let both = uninitialised_as(k, Shape::new([all]), k.dtype);
        let [dk, dv] = [(k, 0), (v, of_values)].map(|(like, start)| piece(&both, start, like));
        let rows = call.sizes().keys;
        let form = call.heads().keys(rows);
        let [q_rows, k_rows, v_rows] = call.arguments();
        let places = Places {
            dy: Some(&self.dy),
            dk: Some(&dk),
            dv: Some(&dv),
            ..Places::default()
        };
        // SAFETY: as in `of_queries`; the gradients of the keys are in front, those of the values begin at a multiple of a
        // vector, and both have the rows of keys and values.
        unsafe {
            kernels::key_gradients::launch_unchecked(
                &k.client,
                call.cubes(rows, form),
                dim(form.units()),
                call.size,
                q_rows,
                k_rows,
                v_rows,
                self.dy.clone().into_tensor_arg(),
                self.statistics.clone().into_buffer_arg(),
                call.bias().into(),
                both.into_buffer_arg(),
                of_values / call.size,
                call.numbers(places),
                form,
                call.element(),
            );
        }
        [dk, dv]
    }

    fn of_sinks(&self, sinks: &CubeTensor) -> CubeTensor {
        let gradients = uninitialised_as(sinks, sinks.shape(), sinks.dtype);
        let Sizes {
            batch,
            heads,
            queries,
            ..
        } = self.call.sizes();
        let units = units(batch * queries);
        // SAFETY: there is a sink and a gradient for each head, and a vector of statistics for each query of each head. Cubes
        // beyond the heads end at once.
        unsafe {
            kernels::sink_gradients::launch_unchecked(
                &sinks.client,
                cubes(sinks, heads),
                dim(units),
                sinks.clone().into_buffer_arg(),
                self.statistics.clone().into_buffer_arg(),
                gradients.clone().into_buffer_arg(),
                self.call.numbers(Places::default()),
                self.call.sizes().group(),
                units,
                self.call.element(),
            );
        }
        gradients
    }
}

/// Returns the contiguous part of a tensor that begins at an element and has the shape of another tensor.
fn piece(of: &CubeTensor, start: usize, like: &CubeTensor) -> CubeTensor {
    let bytes = |elements: usize| (elements * of.elem_size()) as u64;
    let behind = of.shape().num_elements() - start - like.shape().num_elements();
    let handle = of.handle.clone().offset_start(bytes(start));
    CubeTensor::new_contiguous(
        of.client.clone(),
        of.device.clone(),
        like.shape(),
        handle.offset_end(bytes(behind)),
        of.dtype,
    )
}
