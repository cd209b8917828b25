//! Group norm and its gradient: layer norm of the channels of each group, with parameters for each channel.

use crate::abi::layer_norm::wanted;
use crate::abi::prelude::*;
use crate::ops::sum;
use crate::ops::training::{layer_norm, layer_norm_grad};

/// The most channels of a group, in training.
const MOST_CHANNELS: usize = 8000;

/// The sizes that a call names.
#[derive(Clone, Copy)]
struct Sizes {
    batch: usize,
    channels: usize,
    places: usize,
    groups: usize,
}

impl Sizes {
    fn of([batch, channels, places, groups]: [i64; 4]) -> Outcome<Self> {
        ensure!(batch >= 0 && channels > 0 && places >= 0 && groups > 0 && channels % groups == 0;
            "N is {batch}, C {channels}, HxW {places} and group {groups}; N and HxW are not \
             negative, C and group positive, and group divides C");
        Ok(Self {
            batch: batch as usize,
            channels: channels as usize,
            places: places as usize,
            groups: groups as usize,
        })
    }

    /// Returns the elements that a group of one sample has.
    fn width(&self) -> usize {
        self.channels / self.groups * self.places
    }

    /// Returns the channel of an element.
    fn channel(&self, at: usize) -> usize {
        at / self.places % self.channels
    }

    /// Returns the product of some sizes, if a tensor can have as many elements.
    fn product(factors: &[usize]) -> Option<usize> {
        let mut factors = factors.iter();
        factors.try_fold(1usize, |product, factor| product.checked_mul(*factor))
    }

    fn check(name: &str, tensor: &Tensor, factors: &[usize]) -> Outcome<()> {
        ensure!(Self::product(factors) == Some(tensor.count());
            "{name} has the shape {:?}; {factors:?} elements are needed", tensor.shape);
        Ok(())
    }

    /// Checks that a tensor has the elements of the input.
    fn check_whole(&self, name: &str, tensor: &Tensor) -> Outcome<()> {
        Self::check(name, tensor, &[self.batch, self.channels, self.places])
    }

    /// Takes an optional parameter for each channel.
    fn parameter(
        &self,
        operands: &mut Operands,
        name: &str,
        tensor: *const aclTensor,
        dtype: aclDataType,
    ) -> Outcome<Option<Tensor>> {
        if tensor.is_null() {
            return operands.optional(name, tensor);
        }
        let tensor = operands.view(name, tensor, &[dtype])?;
        Self::check(name, &tensor, &[self.channels])?;
        Ok(Some(tensor))
    }
}

operator! { norm: aclnnGroupNormGetWorkspaceSize, aclnnGroupNorm(
    input, gamma, beta, batch, channels, places, groups, eps, output, mean, rstd
) |operands|
    let sizes = Sizes::of([batch, channels, places, groups])?;
    let input = operands.view("self", input, FLOATS)?;
    sizes.check_whole("self", &input)?;
    let gamma = sizes.parameter(operands, "gamma", gamma, input.dtype)?;
    let beta = sizes.parameter(operands, "beta", beta, input.dtype)?;
    let (scaled, shifted) = (gamma.is_some(), beta.is_some());
    operands.result("out", output, input.dtype, &input.shape)?;
    for (name, tensor) in [("meanOut", mean), ("rstdOut", rstd)] {
        let tensor = operands.target(name, tensor, &[input.dtype])?;
        Sizes::check(name, &tensor, &[sizes.batch, sizes.groups])?;
    }
    ensure!((f64::MIN_POSITIVE..).contains(&eps); "eps is {eps}; it must be positive");
    let eps = eps as f32;
    Ok(Arc::new(move |memory, operands| {
        let mut operands = Present::of(operands);
        let x = operands.needed().floats(memory)?;
        let gamma = operands.floats(memory, scaled)?;
        let beta = operands.floats(memory, shifted)?;
        let rows = sizes.batch * sizes.groups;
        let (mut y, means, rstds) = match sizes.width() {
            // The mean of nothing is not a number.
            0 => (Vec::new(), vec![f32::NAN; rows], vec![f32::NAN; rows]),
            width => layer_norm(&x, width, None, None, eps),
        };
        for (at, value) in y.iter_mut().enumerate() {
            let channel = sizes.channel(at);
            let scaled = *value * gamma.as_ref().map_or(1.0, |gamma| gamma[channel]);
            *value = scaled + beta.as_ref().map_or(0.0, |beta| beta[channel]);
        }
        for values in [y, means, rstds] {
            operands.needed().store(memory, &values)?;
        }
        Ok(())
    }))
}

operator! { norm: aclnnGroupNormBackwardGetWorkspaceSize, aclnnGroupNormBackward(
    d_output, input, mean, rstd, gamma, batch, channels, places, groups, output_mask, d_input,
    d_gamma, d_beta
) |operands|
    let sizes = Sizes::of([batch, channels, places, groups])?;
    ensure!(sizes.channels / sizes.groups <= MOST_CHANNELS;
        "a group has {} channels; at most {MOST_CHANNELS} are taken", sizes.channels / sizes.groups);
    let d_output = operands.view("gradOut", d_output, FLOATS)?;
    let dtype = d_output.dtype;
    let input = operands.view("input", input, &[dtype])?;
    for (name, tensor) in [("gradOut", &d_output), ("input", &input)] {
        sizes.check_whole(name, tensor)?;
    }
    ensure!(input.count() > 0; "input has no elements");
    for (name, tensor) in [("mean", mean), ("rstd", rstd)] {
        let tensor = operands.view(name, tensor, &[dtype])?;
        Sizes::check(name, &tensor, &[sizes.batch, sizes.groups])?;
    }
    let gamma = sizes.parameter(operands, "gamma", gamma, dtype)?;
    let scaled = gamma.is_some();
    let wanted = wanted(output_mask)?;
    if wanted[0] {
        operands.result("gradInput", d_input, dtype, &input.shape)?;
    }
    let own = gamma.map_or(vec![sizes.channels], |gamma| gamma.shape);
    for (name, tensor, wanted) in [
        ("gradGammaOut", d_gamma, wanted[1]),
        ("gradBetaOut", d_beta, wanted[2]),
    ] {
        if wanted {
            let tensor = operands.target(name, tensor, &[dtype])?;
            check_size(name, &tensor, &own)?;
        }
    }
    Ok(Arc::new(move |memory, operands| {
        let mut operands = Present::of(operands);
        let mut read = || operands.needed().floats(memory);
        let (dy, x, means, rstds) = (read()?, read()?, read()?, read()?);
        let gamma = operands.floats(memory, scaled)?;
        let factor = |at| gamma.as_ref().map_or(1.0, |gamma| gamma[sizes.channel(at)]);
        let scaled: Vec<f32> = dy.iter().enumerate().map(|(at, dy)| dy * factor(at)).collect();
        let (dx, ..) = layer_norm_grad(&scaled, &x, sizes.width(), None, &means, &rstds);
        let normal = |at: usize| {
            let row = at / sizes.width();
            (x[at] - means[row]) * rstds[row]
        };
        let d_gamma = of_channels(&sizes, dy.len(), |at| dy[at] * normal(at));
        let d_beta = of_channels(&sizes, dy.len(), |at| dy[at]);
        for (wanted, values) in wanted.into_iter().zip([dx, d_gamma, d_beta]) {
            if let Some(output) = operands.next(wanted) {
                output.store(memory, &values)?;
            }
        }
        Ok(())
    }))
}

/// Returns the sums of values over each channel.
fn of_channels(sizes: &Sizes, count: usize, value: impl Fn(usize) -> f32) -> Vec<f32> {
    let mut all = vec![Vec::new(); sizes.channels];
    for at in 0..count {
        all[sizes.channel(at)].push(value(at));
    }
    all.iter().map(|values| sum(values)).collect()
}
