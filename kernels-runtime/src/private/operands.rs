//! The types of fields and parameters that operands may come from.

use crate::low_rank::LowRankExperts;
use crate::quantized_experts::QuantizedExperts;
use burn::module::Param;
use burn::tensor::Tensor;

/// The weight or the bias of a norm, as a field of the user's struct.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not the weight or the bias of a norm",
    label = "expected `Param<Tensor<1>>` or `Tensor<1>`"
)]
pub trait NormWeight {
    /// Returns the vector, `[n]`.
    fn norm_weight(&self) -> Tensor<1>;
}

impl NormWeight for Param<Tensor<1>> {
    fn norm_weight(&self) -> Tensor<1> {
        self.val()
    }
}

impl NormWeight for Tensor<1> {
    fn norm_weight(&self) -> Tensor<1> {
        self.clone()
    }
}

impl<T: NormWeight + ?Sized> NormWeight for &T {
    fn norm_weight(&self) -> Tensor<1> {
        T::norm_weight(self)
    }
}

/// The sinks of attention, as a field of the user's struct.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not the sinks of attention",
    label = "expected `Param<Tensor<1>>` or `Tensor<1>`, one score for each head"
)]
pub trait SinkScores {
    /// Returns the scores, `[heads]`.
    fn sink_scores(&self) -> Tensor<1>;
}

impl SinkScores for Param<Tensor<1>> {
    fn sink_scores(&self) -> Tensor<1> {
        self.val()
    }
}

impl SinkScores for Tensor<1> {
    fn sink_scores(&self) -> Tensor<1> {
        self.clone()
    }
}

impl<T: SinkScores + ?Sized> SinkScores for &T {
    fn sink_scores(&self) -> Tensor<1> {
        T::sink_scores(self)
    }
}

/// The epsilon of a norm, as a field of the user's struct.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not the epsilon of a norm",
    label = "expected `f64` or `f32`"
)]
pub trait Epsilon {
    /// Returns the value.
    fn epsilon(&self) -> f64;
}

impl Epsilon for f64 {
    fn epsilon(&self) -> f64 {
        *self
    }
}

impl Epsilon for f32 {
    fn epsilon(&self) -> f64 {
        f64::from(*self)
    }
}

impl<T: Epsilon + ?Sized> Epsilon for &T {
    fn epsilon(&self) -> f64 {
        T::epsilon(self)
    }
}

/// A run-time number of a kernel that is not an epsilon: a clamp's limit, a sparsity.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a number of a kernel",
    label = "expected `f64` or `f32`"
)]
pub trait Number {
    /// Returns the value.
    fn number(&self) -> f64;
}

impl Number for f64 {
    fn number(&self) -> f64 {
        *self
    }
}

impl Number for f32 {
    fn number(&self) -> f64 {
        f64::from(*self)
    }
}

impl<T: Number + ?Sized> Number for &T {
    fn number(&self) -> f64 {
        T::number(self)
    }
}

/// A number of elements, as a field of the user's struct.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a number of elements",
    label = "expected `usize`"
)]
pub trait Count {
    /// Returns the value.
    fn count(&self) -> usize;
}

impl Count for usize {
    fn count(&self) -> usize {
        *self
    }
}

impl<T: Count + ?Sized> Count for &T {
    fn count(&self) -> usize {
        T::count(self)
    }
}

/// An integer that may be negative, such as an ignored index, as a field of the user's struct.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an integer of a kernel",
    label = "expected `i64` or `i32`"
)]
pub trait Integer {
    /// Returns the value.
    fn integer(&self) -> i64;
}

impl Integer for i64 {
    fn integer(&self) -> i64 {
        *self
    }
}

impl Integer for i32 {
    fn integer(&self) -> i64 {
        i64::from(*self)
    }
}

impl<T: Integer + ?Sized> Integer for &T {
    fn integer(&self) -> i64 {
        T::integer(self)
    }
}

/// The lengths of the three sections of a multimodal rotary embedding, in pairs.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not the sections of a rotary position embedding",
    label = "expected `[usize; 3]` or `Vec<usize>`: pairs for time, height and width"
)]
pub trait SectionLengths {
    /// Returns the lengths for time, height and width.
    fn lengths(&self) -> [usize; 3];
}

impl SectionLengths for [usize; 3] {
    fn lengths(&self) -> [usize; 3] {
        *self
    }
}

impl SectionLengths for [usize] {
    fn lengths(&self) -> [usize; 3] {
        self.try_into().unwrap_or_else(|_| {
            panic!("RoPE: there are three sections (time, height, width), not {self:?}")
        })
    }
}

impl SectionLengths for Vec<usize> {
    fn lengths(&self) -> [usize; 3] {
        self.as_slice().lengths()
    }
}

impl<T: SectionLengths + ?Sized> SectionLengths for &T {
    fn lengths(&self) -> [usize; 3] {
        T::lengths(self)
    }
}

/// The lengths of sequences.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a list of lengths",
    label = "expected `&[usize]` or `Vec<usize>`: lengths on the host, so that no device is waited for"
)]
pub trait LengthList {
    /// Returns the lengths.
    fn length_list(&self) -> &[usize];
}

impl LengthList for [usize] {
    fn length_list(&self) -> &[usize] {
        self
    }
}

impl LengthList for Vec<usize> {
    fn length_list(&self) -> &[usize] {
        self
    }
}

impl<T: LengthList + ?Sized> LengthList for &T {
    fn length_list(&self) -> &[usize] {
        T::length_list(self)
    }
}

/// A table of cosines or sines of three positions, `[3, b, s, w]`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a table of a multimodal rotary position embedding",
    label = "expected `Tensor<4>`, [3, b, s, w], or a `Param` of one"
)]
pub trait SectionTable {
    /// Returns the table.
    fn table(self) -> Tensor<4>;
}

impl SectionTable for Tensor<4> {
    fn table(self) -> Tensor<4> {
        self
    }
}

impl SectionTable for &Tensor<4> {
    fn table(self) -> Tensor<4> {
        self.clone()
    }
}

impl SectionTable for Param<Tensor<4>> {
    fn table(self) -> Tensor<4> {
        self.val()
    }
}

impl SectionTable for &Param<Tensor<4>> {
    fn table(self) -> Tensor<4> {
        self.val()
    }
}

/// The weights of all experts of a mixture in one tensor.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not the weights of all experts",
    label = "expected `Param<Tensor<3>>` or `Tensor<3>`, one matrix an expert",
    note = "experts that are layers of their own, in a list, are `experts = list`"
)]
pub trait ExpertWeights {
    /// Returns the weights, with experts along the first axis, without what [`low_rank`](Self::low_rank) adds to them.
    /// Those of [`quantised`](Self::quantised) experts have no numbers.
    fn expert_weights(&self) -> Tensor<3>;

    /// Returns the low-rank adapter of the weights, if there is one.
    fn low_rank(&self) -> Option<&LowRankExperts> {
        None
    }

    /// Returns the weights in quantised form, if they are.
    fn quantised(&self) -> Option<&QuantizedExperts> {
        None
    }

    /// Initialises the weights if necessary.
    fn initialise(&self) {}
}

impl ExpertWeights for Tensor<3> {
    fn expert_weights(&self) -> Tensor<3> {
        self.clone()
    }
}

impl ExpertWeights for Param<Tensor<3>> {
    fn expert_weights(&self) -> Tensor<3> {
        match self.low_rank().is_some() || self.quantised().is_some() {
            true => self.base(),
            false => self.val(),
        }
    }

    fn low_rank(&self) -> Option<&LowRankExperts> {
        match self.quantised() {
            Some(experts) => experts.adapter(),
            None => self.reparameterization(),
        }
    }

    fn quantised(&self) -> Option<&QuantizedExperts> {
        self.reparameterization()
    }

    fn initialise(&self) {
        initialise(self);
    }
}

impl<T: ExpertWeights + ?Sized> ExpertWeights for &T {
    fn expert_weights(&self) -> Tensor<3> {
        T::expert_weights(self)
    }

    fn low_rank(&self) -> Option<&LowRankExperts> {
        T::low_rank(self)
    }

    fn quantised(&self) -> Option<&QuantizedExperts> {
        T::quantised(self)
    }

    fn initialise(&self) {
        T::initialise(self);
    }
}

fn initialise<const D: usize>(param: &Param<Tensor<D>>) {
    if !param.is_initialized() {
        param.val();
    }
}

/// The biases of all experts of a mixture in one tensor.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not the biases of all experts",
    label = "expected `Param<Tensor<2>>` or `Tensor<2>`, one row an expert"
)]
pub trait ExpertBiases {
    /// Returns the biases, with experts along the first axis.
    fn expert_biases(&self) -> Tensor<2>;

    /// Initialises the biases if necessary.
    fn initialise(&self) {}
}

impl ExpertBiases for Tensor<2> {
    fn expert_biases(&self) -> Tensor<2> {
        self.clone()
    }
}

impl ExpertBiases for Param<Tensor<2>> {
    fn expert_biases(&self) -> Tensor<2> {
        self.val()
    }

    fn initialise(&self) {
        initialise(self);
    }
}

impl<T: ExpertBiases + ?Sized> ExpertBiases for &T {
    fn expert_biases(&self) -> Tensor<2> {
        T::expert_biases(self)
    }

    fn initialise(&self) {
        T::initialise(self);
    }
}

/// The correction of a router's choice, with one value per expert.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not the correction of a router",
    label = "expected `Param<Tensor<1>>` or `Tensor<1>`, one value an expert"
)]
pub trait CorrectionBias {
    /// Returns the values, `[experts]`.
    fn correction_bias(&self) -> Tensor<1>;
}

impl CorrectionBias for Tensor<1> {
    fn correction_bias(&self) -> Tensor<1> {
        self.clone()
    }
}

impl CorrectionBias for Param<Tensor<1>> {
    fn correction_bias(&self) -> Tensor<1> {
        self.val()
    }
}

impl<T: CorrectionBias + ?Sized> CorrectionBias for &T {
    fn correction_bias(&self) -> Tensor<1> {
        T::correction_bias(self)
    }
}
