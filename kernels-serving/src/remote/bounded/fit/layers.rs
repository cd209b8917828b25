//! Requirements of the operations of layers on their operands.

use super::super::tensor::Held;
use super::{Fit, Mismatch, of_one_type, one_layer, unless};
use burn::backend::TensorMetadata;
use burn::backend::ops::{ConvOptions, ConvTransposeOptions, DeformConvOptions, UnfoldOptions};

/// The largest window, stride, dilation and padding. Sums and products of two of them don't overflow.
const LARGEST: usize = 1 << 31;

/// The windows of an operation and their steps, by dimension.
#[derive(Clone, Copy)]
struct Windows<const D: usize> {
    window: [usize; D],
    stride: [usize; D],
    padding: [(usize, usize); D],
    dilation: [usize; D],
}

impl<const D: usize> Windows<D> {
    /// Checks that no window is empty, that every window moves, and that no number overflows.
    fn check(&self) -> Fit {
        let steps = [self.window, self.stride, self.dilation];
        let mut steps = steps.iter().flatten();
        unless(
            steps.all(|size| (1..=LARGEST).contains(size)),
            format_args!("a window, stride or dilation is 0 or more than {LARGEST}"),
        )?;
        let mut padding = self
            .padding
            .iter()
            .flat_map(|(before, after)| [before, after]);
        unless(
            padding.all(|size| *size <= LARGEST),
            format_args!("padding is more than {LARGEST}"),
        )
    }

    /// Returns the length of a window, including its gaps.
    fn reach(&self, dim: usize) -> usize {
        (self.window[dim] - 1) * self.dilation[dim] + 1
    }

    /// Returns the number of places of windows in these lengths. Each length has at least one place.
    fn places(&self, lengths: &[usize]) -> Result<Vec<usize>, Mismatch> {
        self.check()?;
        let places = lengths.iter().enumerate().map(|(dim, length)| {
            let (before, after) = self.padding[dim];
            let (padded, reach) = (length.saturating_add(before + after), self.reach(dim));
            let room = padded.checked_sub(reach).ok_or_else(|| {
                Mismatch::new(format_args!(
                    "a window over {reach} does not fit into {padded}"
                ))
            })?;
            Ok(room / self.stride[dim] + 1)
        });
        places.collect()
    }
}

/// Returns the batch, the channels and the other sizes of `x`.
fn parts<'a, const D: usize>(
    name: &str,
    sizes: &'a [usize],
) -> Result<(usize, usize, &'a [usize]), Mismatch> {
    match sizes {
        [one, other, rest @ ..] if rest.len() == D => Ok((*one, *other, rest)),
        _ => Err(Mismatch::new(format_args!(
            "{name} has shape {sizes:?} instead of {} dimensions",
            D + 2
        ))),
    }
}

fn windows<const D: usize>(sizes: &[usize]) -> [usize; D] {
    std::array::from_fn(|dim| sizes[dim])
}

fn shaped(name: &str, found: &[usize], wanted: &[usize]) -> Fit {
    unless(
        found == wanted,
        format_args!("{name} has shape {found:?} instead of {wanted:?}"),
    )
}

/// Checks that the number of channels is that of all groups.
fn grouped(channels: usize, groups: usize, each: usize) -> Fit {
    unless(
        groups.checked_mul(each) == Some(channels),
        format_args!("{channels} channels are not {groups} groups of {each}"),
    )
}

fn divided(name: &str, channels: usize, groups: usize) -> Fit {
    unless(
        groups > 0 && channels.is_multiple_of(groups),
        format_args!("{name} of {channels} channels has no {groups} groups"),
    )
}

fn biased<T: TensorMetadata>(bias: Option<&Held<T>>, channels: usize) -> Fit {
    bias.map_or(Ok(()), |bias| {
        shaped("the bias", &bias.sizes(), &[channels])
    })
}

/// Checks that the weight matches the groups of `x`'s channels, and that the windows fit.
pub(in super::super) fn convolved<T: TensorMetadata, const D: usize>(
    x: &Held<T>,
    weight: &Held<T>,
    bias: Option<&Held<T>>,
    options: &ConvOptions<D>,
) -> Fit {
    one_layer(x, weight, bias)?;
    let (sizes, of_weight) = (x.sizes(), weight.sizes());
    convolution(&sizes, &of_weight, options)?;
    biased(bias, of_weight[0])
}

fn convolution<const D: usize>(x: &[usize], weight: &[usize], options: &ConvOptions<D>) -> Fit {
    let (_, channels, lengths) = parts::<D>("x", x)?;
    let (results, each, window) = parts::<D>("the weight", weight)?;
    grouped(channels, options.groups, each)?;
    divided("the weight", results, options.groups)?;
    let windows = Windows {
        window: windows(window),
        stride: options.stride,
        padding: options.padding,
        dilation: options.dilation,
    };
    windows.places(lengths).map(drop)
}

/// Checks that the weight has a row for each of `x`'s channels, and that the result has a size.
pub(in super::super) fn deconvolved<T: TensorMetadata, const D: usize>(
    x: &Held<T>,
    weight: &Held<T>,
    bias: Option<&Held<T>>,
    options: &ConvTransposeOptions<D>,
) -> Fit {
    one_layer(x, weight, bias)?;
    let (sizes, of_weight) = (x.sizes(), weight.sizes());
    transposed(&sizes, &of_weight, options)?;
    biased(bias, of_weight[1].saturating_mul(options.groups))
}

fn transposed<const D: usize>(
    x: &[usize],
    weight: &[usize],
    options: &ConvTransposeOptions<D>,
) -> Fit {
    let (_, channels, lengths) = parts::<D>("x", x)?;
    let (rows, _, window) = parts::<D>("the weight", weight)?;
    unless(
        rows == channels,
        format_args!("{channels} channels meet a weight for {rows}"),
    )?;
    divided("x", channels, options.groups)?;
    let windows = Windows {
        window: windows(window),
        stride: options.stride,
        padding: options.padding.map(|padding| (padding, padding)),
        dilation: options.dilation,
    };
    windows.check()?;
    for (dim, length) in lengths.iter().enumerate() {
        let strides = length
            .checked_sub(1)
            .map(|last| last.checked_mul(options.stride[dim]));
        let (out, around) = (options.padding_out[dim], 2 * options.padding[dim]);
        let grown = strides
            .flatten()
            .and_then(|length| length.checked_add(windows.reach(dim)));
        let grown = grown.and_then(|length| length.checked_add(out));
        unless(
            grown.is_some_and(|grown| grown >= around),
            format_args!("a length of {length} has no result without padding of {around}"),
        )?;
    }
    Ok(())
}

/// Checks that the offsets and the mask have values for each element of each window.
pub(in super::super) fn deformed<T: TensorMetadata>(
    x: &Held<T>,
    offset: &Held<T>,
    weight: &Held<T>,
    [mask, bias]: [Option<&Held<T>>; 2],
    output_grad: Option<&Held<T>>,
    options: &DeformConvOptions<2>,
) -> Fit {
    let all = [Some(x), Some(offset), Some(weight), mask, bias, output_grad];
    of_one_type(all.into_iter().flatten().map(Held::dtype))?;
    let (sizes, of_weight) = (x.sizes(), weight.sizes());
    let (batch, channels, lengths) = parts::<2>("x", &sizes)?;
    let (results, each, window) = parts::<2>("the weight", &of_weight)?;
    grouped(channels, options.weight_groups, each)?;
    divided("the weight", results, options.weight_groups)?;
    divided("x", channels, options.offset_groups)?;
    let windows = Windows {
        window: windows(window),
        stride: options.stride,
        padding: options.padding.map(|padding| (padding, padding)),
        dilation: options.dilation,
    };
    let places = windows.places(lengths)?;
    let of_windows = (window[0].saturating_mul(window[1])).saturating_mul(options.offset_groups);
    let with = |channels| [batch, channels, places[0], places[1]];
    shaped(
        "the offset",
        &offset.sizes(),
        &with(of_windows.saturating_mul(2)),
    )?;
    if let Some(mask) = mask {
        shaped("the mask", &mask.sizes(), &with(of_windows))?;
    }
    if let Some(grad) = output_grad {
        shaped("the gradient", &grad.sizes(), &with(results))?;
    }
    biased(bias, results)
}

/// Checks windows over the last dimensions of `x`. They need not fit: the result of a pool then has one element or
/// none.
pub(in super::super) fn pooled<T: TensorMetadata, const D: usize>(
    x: &Held<T>,
    window: [usize; D],
    stride: [usize; D],
    padding: [usize; D],
    dilation: [usize; D],
) -> Fit {
    parts::<D>("x", &x.sizes())?;
    let padding = padding.map(|padding| (padding, padding));
    let windows = Windows {
        window,
        stride,
        padding,
        dilation,
    };
    windows.check()
}

/// Checks that the windows fit.
pub(in super::super) fn unfolded<T: TensorMetadata>(
    x: &Held<T>,
    window: [usize; 2],
    options: &UnfoldOptions,
) -> Fit {
    let sizes = x.sizes();
    let (_, _, lengths) = parts::<2>("x", &sizes)?;
    let windows = Windows {
        window,
        stride: options.stride,
        padding: options.padding.map(|padding| (padding, padding)),
        dilation: options.dilation,
    };
    windows.places(lengths).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns options that a client can send, including those that Burn's own constructor refuses.
    fn with(stride: usize, padding: usize, dilation: usize, groups: usize) -> ConvOptions<1> {
        ConvOptions {
            stride: [stride],
            padding: [(padding, padding)],
            dilation: [dilation],
            groups,
        }
    }

    #[test]
    fn a_weight_has_the_channels_of_x() {
        let one = with(1, 0, 1, 1);
        convolution(&[1, 3, 8], &[5, 3, 1], &one).unwrap();
        for (x, weight) in [
            (&[1, 3, 8][..], &[5, 4, 1][..]),
            (&[1, 3, 8], &[5, 3]),
            (&[3, 8], &[5, 3, 1]),
            (&[1, 3, 8], &[5, 3, 0]),
            (&[1, 3, 8], &[5, 3, 9]),
        ] {
            assert!(convolution(x, weight, &one).is_err(), "{x:?} {weight:?}");
        }
        convolution(&[1, 6, 8], &[4, 3, 1], &with(1, 0, 1, 2)).unwrap();
        convolution(&[1, 6, 8], &[5, 3, 1], &with(1, 0, 1, 2)).unwrap_err();
        convolution(&[1, 0, 8], &[5, 3, 1], &with(1, 0, 1, 0)).unwrap_err();
    }

    #[test]
    fn windows_do_not_wrap_around() {
        for options in [
            with(0, 0, 1, 1),
            with(1, 0, 0, 1),
            with(1 << 63, 0, 1, 1),
            with(1, 1 << 63, 1, 1),
            with(1, 0, 1 << 63, 1),
        ] {
            convolution(&[1, 1, 8], &[1, 1, 3], &options).unwrap_err();
        }
        // Padding on both sides leaves room for two gaps, and a window of four elements has three.
        let widest = with(LARGEST, LARGEST, LARGEST, 1);
        convolution(&[1, 1, 8], &[1, 1, 2], &widest).unwrap();
        convolution(&[1, 1, 8], &[1, 1, 4], &widest).unwrap_err();
    }

    #[test]
    fn a_transposed_convolution_has_a_result() {
        let with = |stride, padding| ConvTransposeOptions::new([stride], [padding], [0], [1], 1);
        transposed(&[1, 2, 4], &[2, 3, 3], &with(2, 1)).unwrap();
        transposed(&[1, 2, 4], &[2, 3, 3], &with(1, 3)).unwrap();
        for (x, options) in [
            (&[1, 2, 4][..], with(1, 4)),
            (&[1, 2, 0], with(1, 0)),
            (&[1, 3, 4], with(1, 0)),
            (&[1, 2, 4], with(1 << 63, 0)),
        ] {
            assert!(transposed(x, &[2, 3, 3], &options).is_err(), "{x:?}");
        }
    }
}
