//! Checks of convolutions, from CANN's document.

use super::Settings;
use crate::abi::prelude::*;
use crate::ops::convolution::Geometry;
use crate::ops::matmul::{to_half, to_hf32};
use crate::tensor::MOST_SHARED;

/// The longest axis.
const LONGEST: usize = 1_000_000;

/// Fails on processors without convolutions: those of Ascend910 before 910B.
pub(super) fn check_chip() -> Outcome<()> {
    let config = state::config()?;
    ensure!(config.has_bf16() || config.soc.starts_with("Ascend310P");
        "{} does not have this operator", config.soc);
    Ok(())
}

/// The rounding of a factor before it is multiplied, if there is one.
pub(super) type Rounding = Option<fn(f32) -> f32>;

/// Returns the rounding of factors of a dtype in a mode.
pub(super) fn rounding(cube_math: i8, dtype: aclDataType) -> Outcome<Rounding> {
    let newer = state::config()?.has_bf16();
    let single = dtype == ACL_FLOAT;
    let taken = match cube_math {
        0 => !single,
        1 => true,
        2 => dtype != ACL_BF16,
        3 => newer,
        _ => false,
    };
    ensure!(taken;
        "cubeMathType {cube_math} is not one of the modes for {} on this chip", name_of(dtype));
    Ok(match cube_math {
        1 | 3 if single && newer => Some(to_hf32),
        1 | 2 if single => Some(to_half),
        _ => None,
    })
}

/// Checks that a tensor has the format of its axes.
pub(super) fn check_format(name: &str, tensor: &Tensor) -> Outcome<()> {
    let fits = match tensor.rank() {
        3 => tensor.format == ACL_FORMAT_NCL,
        4 => tensor.format == ACL_FORMAT_NCHW,
        5 => tensor.format == ACL_FORMAT_NCDHW,
        _ => false,
    };
    ensure!(fits;
        "{name} has {} axes and the format {}; 3 to 5 are taken, in NCL, NCHW and NCDHW",
        tensor.rank(), tensor.format.0);
    Ok(())
}

fn check_lengths(name: &str, tensor: &Tensor, first: usize) -> Outcome<()> {
    ensure!(
        tensor.shape.iter().all(|length| *length <= LONGEST)
            && tensor.shape[first..].iter().all(|length| *length > 0);
        "{name} has the shape {:?}; axes have 1 to {LONGEST} elements, but for the batch",
        tensor.shape
    );
    Ok(())
}

/// Checks values of which there is one for each axis.
fn check_values(name: &str, values: &[i64], counts: &[usize], limits: [i64; 2]) -> Outcome<()> {
    let [least, most] = limits;
    ensure!(
        counts.contains(&values.len()) && values.iter().all(|value| (least..=most).contains(value));
        "{name} is {values:?}; it has {counts:?} values of {least} to {most}"
    );
    Ok(())
}

/// Checks the input and the settings for its number of axes.
pub(super) fn check_input(input: &Tensor, settings: &Settings) -> Outcome<()> {
    check_format("input", input)?;
    check_lengths("input", input, 1)?;
    let axes = input.rank() - 2;
    let transposed = settings.transposed;
    let most = i64::MAX;
    let kernels = if transposed { 255 } else { most };
    check_values("stride", &settings.stride, &[axes], [1, most])?;
    check_values("dilation", &settings.dilation, &[axes], [1, kernels])?;
    let paddings: &[usize] = match (axes, transposed) {
        (1, false) => &[1, 2],
        (1, true) => &[1],
        (2, _) => &[2, 4],
        _ => &[3],
    };
    let padded = if transposed || axes == 3 { most } else { 255 };
    check_values("padding", &settings.padding, paddings, [0, padded])?;
    // The depth of three axes has no such limits.
    if axes == 3 {
        check_values("stride", &settings.stride[1..], &[2], [1, 63])?;
        check_values("padding", &settings.padding[1..], &[2], [0, 255])?;
        check_values("dilation", &settings.dilation[1..], &[2], [1, 255])?;
    }
    if !transposed {
        return Ok(());
    }
    check_values(
        "outputPadding",
        &settings.output_padding,
        &[axes],
        [0, most],
    )?;
    for (axis, more) in settings.output_padding.iter().enumerate() {
        let (stride, dilation) = (settings.stride[axis], settings.dilation[axis]);
        ensure!(*more < stride.max(dilation);
            "outputPadding {more} is not less than the stride {stride} or the dilation {dilation}");
    }
    Ok(())
}

/// Checks the weight and the groups. Returns the number of the result's channels.
pub(super) fn check_weight(input: &Tensor, weight: &Tensor, settings: &Settings) -> Outcome<usize> {
    check_format("weight", weight)?;
    check_lengths("weight", weight, 0)?;
    let (channels, groups) = (input.shape[1], settings.groups);
    ensure!(weight.rank() == input.rank() && (1..=65535).contains(&groups);
        "input is {:?}, weight {:?}, groups {groups}; both have one number of axes, and groups is \
         1 to 65535", input.shape, weight.shape);
    let groups = groups as usize;
    let most = match (settings.transposed, input.rank()) {
        (true, _) => 255,
        (false, 5) => 511,
        (false, _) => LONGEST,
    };
    // The depth of a three-dimensional kernel has no such limit.
    let first = if weight.rank() == 5 { 3 } else { 2 };
    ensure!(weight.shape[first..].iter().all(|length| *length <= most);
        "weight has the shape {:?}; a kernel has at most {most} elements along an axis",
        weight.shape);
    let (fits, outputs) = match settings.transposed {
        false => (
            weight.shape[1] * groups == channels && weight.shape[0].is_multiple_of(groups),
            weight.shape[0],
        ),
        true => (
            weight.shape[0] == channels && channels.is_multiple_of(groups),
            weight.shape[1] * groups,
        ),
    };
    ensure!(fits;
        "input is {:?} and weight {:?}, which do not fit with {groups} groups",
        input.shape, weight.shape);
    Ok(outputs)
}

/// Returns the sizes of a convolution, with the result's.
pub(super) fn geometry(input: &Tensor, weight: &Tensor, settings: &Settings) -> Outcome<Geometry> {
    let axes = input.rank() - 2;
    let mut geometry = Geometry {
        large: [1; 3],
        small: [1; 3],
        kernel: [1; 3],
        stride: [1; 3],
        padding: [0; 3],
        dilation: [1; 3],
    };
    for axis in 0..axes {
        let to = 3 - axes + axis;
        // Some paddings have a value for each end.
        let (front, back) = match settings.padding.len() == axes {
            true => (settings.padding[axis], settings.padding[axis]),
            false => (settings.padding[2 * axis], settings.padding[2 * axis + 1]),
        };
        let (stride, dilation) = (settings.stride[axis], settings.dilation[axis]);
        let (kernel, length) = (weight.shape[2 + axis], input.shape[2 + axis]);
        let reach = dilation.saturating_mul(kernel as i64 - 1).saturating_add(1);
        let given = length as i64;
        let result = if settings.transposed {
            let more = settings.output_padding[axis];
            (given - 1)
                .saturating_mul(stride)
                .saturating_add(reach.saturating_add(more))
                .saturating_sub(front)
                .saturating_sub(back)
        } else {
            let room = given
                .saturating_add(front)
                .saturating_add(back)
                .saturating_sub(reach);
            if room < 0 { 0 } else { room / stride + 1 }
        };
        ensure!((1..=i64::from(u32::MAX)).contains(&result);
            "the kernel reaches over {reach} of {given} elements with paddings of {front} and \
             {back}, which gives no result");
        (geometry.large[to], geometry.small[to]) = match settings.transposed {
            true => (result as usize, length),
            false => (length, result as usize),
        };
        geometry.kernel[to] = kernel;
        geometry.stride[to] = usize::try_from(stride).unwrap_or(usize::MAX);
        geometry.padding[to] = front as usize;
        geometry.dilation[to] = usize::try_from(dilation).unwrap_or(usize::MAX);
    }
    // The emulator holds what the kernel reads at all places of one image.
    let channels = if settings.transposed { 0 } else { 1 };
    let lengths = geometry.kernel.iter().chain(&geometry.small);
    let read = lengths
        .chain([&weight.shape[channels]])
        .try_fold(1_usize, |all, length| all.checked_mul(*length));
    ensure!(read.is_some_and(|read| read <= MOST_SHARED);
        "a kernel of {:?} at {:?} places reads more than the emulator holds, {MOST_SHARED} \
         elements", geometry.kernel, geometry.small);
    Ok(geometry)
}
