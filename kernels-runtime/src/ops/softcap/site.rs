use super::{Operands, Softcap, reference};
use crate::dispatch::At;
use crate::kernel::{self, Rows, Tensors, Visitor, noise_size, rounded};
use crate::live::Captured;
use crate::live::probe::append_fixed;
use crate::ops::operands::checked;
use crate::registry::Implementation;
use burn::tensor::Tensor;

/// Runs the soft cap of a site.
#[track_caller]
pub fn softcap<const D: usize>(
    at: At,
    x: Tensor<D>,
    cap: f64,
    reference: &mut dyn FnMut(Tensor<D>) -> Tensor<D>,
) -> Tensor<D> {
    let _span = at.enter();
    let captured = Captured::These(&[]);
    kernel::either(&at, Call { x, cap }, captured, &mut |call: Call<D>| {
        reference(call.x)
    })
}

/// Runs [`reference()`].
#[track_caller]
pub fn softcap_reference<const D: usize>(x: Tensor<D>, cap: f64) -> Tensor<D> {
    reference(x, cap)
}

/// The operands as live verification checks them.
#[derive(Clone)]
struct Call<const D: usize> {
    x: Tensor<D>,
    cap: f64,
}

impl<const D: usize> Tensors for Call<D> {
    fn visit(&mut self, visitor: &mut impl Visitor) {
        visitor.tensor("x", &mut self.x);
    }
}

/// Returns `y` with the gradient of a body that computes the slope as `1 − tanh²`, whose terms cancel near the cap, and has
/// rounded the hyperbolic tangent.
fn with_noisy_slope<const D: usize>(x: Tensor<D>, y: Tensor<D>, cap: f64) -> Tensor<D> {
    let tanh = rounded(y.clone().detach().mul_scalar(1.0 / cap)).detach();
    let slope = (tanh.clone() * tanh).neg().add_scalar(1.0);
    // Infinite numbers have the slope 0, and no difference.
    let x = x.clone().mask_fill(x.is_inf(), 0.0);
    y.detach() + (x.clone() - x.detach()) * slope
}

impl<const D: usize> kernel::Operands for Call<D> {
    type Output = Tensor<D>;

    fn reference(self) -> Tensor<D> {
        let y = reference(self.x.clone(), self.cap);
        match noise_size() {
            Some(_) => with_noisy_slope(self.x, y, self.cap),
            None => y,
        }
    }

    fn launch(self, implementation: &'static Implementation) -> Tensor<D> {
        let operands = checked(Operands::new(self.x.into_dispatch(), self.cap));
        Tensor::from_dispatch(Softcap::run(operands, implementation).y)
    }

    fn sample(&self, rows: Rows) -> Option<Self> {
        let (x, cap) = (rows.of(&self.x), self.cap);
        Some(Self { x, cap })
    }

    /// The terms of the slope `1 − tanh²`.
    fn gradient_terms(&self, _: &str) -> f64 {
        1.0
    }

    /// Appends a slice of numbers as large as the cap: much smaller ones are the same under every cap.
    fn with_probes(self) -> (Self, usize) {
        // In f16, elements around other caps are not finite or have few digits.
        if D < 2 || self.x.shape().num_elements() == 0 || !(1e-2..1e4).contains(&self.cap) {
            return (self, 0);
        }
        let x = append_fixed("x", self.x, &[self.cap]);
        (Self { x, ..self }, 1)
    }
}
