//! The divergence of a student from a teacher, without the logits of all tokens.
//!
//! The kernel `npu_fused_linear_divergence` computes it. Elsewhere, the logits of both are computed a few tokens at a time, and
//! the gradients of these tokens at once, from the formula of [`Divergence`].

use burn::tensor::{DType, Device, Gradients, Int, Tensor, TensorData};
use burn_kernels::fused_kernel;

use crate::error::ModelError;
use crate::model::causal_lm::{CausalLm, Losses};
use crate::model::projection::{OutputWeight, Projection};
use crate::model::sequences::{Counted, Sequences};
use crate::model::tiles::{factors_of, weighted_sum};
use crate::preference::Divergence;

/// A teacher, and the tokens of which a student learns its probabilities.
#[derive(Clone, Copy, Debug)]
pub struct Distilled<'a> {
    /// The teacher, without gradients: of the same tokens, and any width.
    pub teacher: &'a CausalLm,
    /// The places of the tokens whose next ones are learned, `row · s + column` of sequences `[b, s]`.
    pub places: &'a [usize],
    /// The divergence.
    pub divergence: Divergence,
}

/// Returns the sum of the divergences of tokens, each with its factor, `[1]`. Its gradient flows to the student's
/// hidden states and weight. Where one vocabulary is larger, its last classes are padding, and not compared.
///
/// # Errors
/// Returns [`ModelError::Setting`] for a number out of its range, and [`ModelError::Input`] without a token or a class, and if
/// numbers of tokens or of factors differ.
pub fn divergence_loss(
    student: &Projection,
    teacher: &Projection,
    factors: &[f64],
    divergence: Divergence,
) -> Result<Tensor<1>, ModelError> {
    divergence.check()?;
    let tokens = student.tokens();
    for (input, found, expected) in [
        ("teacher", teacher.tokens(), tokens),
        ("factors", factors.len(), tokens),
    ] {
        if found != expected || expected == 0 {
            let problem = format!("expected {expected} numbers, at least one, found {found}");
            return Err(ModelError::Input { input, problem });
        }
    }
    if student.vocabulary() == 0 || teacher.vocabulary() == 0 {
        return Err(ModelError::Input {
            input: "teacher",
            problem: "student and teacher must have tokens in their vocabularies".to_owned(),
        });
    }
    let factors = factors_of(student, factors);
    let (Some(weight), Some(teacher_weight)) = (student.weight.floats(), teacher.weight.floats())
    else {
        // The kernel takes floats alone.
        return tiled(student, teacher, factors, divergence);
    };
    let cap = |of: &Projection| of.softcap.unwrap_or(f64::INFINITY);
    Ok(divergences(
        student.hidden.clone(),
        weight.clone(),
        teacher.hidden.clone(),
        teacher_weight.clone(),
        factors,
        divergence.mixture,
        divergence.temperature,
        cap(student),
        cap(teacher),
    ))
}

/// Returns the sum of the divergences of tokens, each with its factor. An infinite cap is none.
#[fused_kernel("npu_fused_linear_divergence", layer = "divergences")]
#[allow(clippy::too_many_arguments)] // They are the operands of the kernel.
fn divergences(
    hidden: Tensor<2>,
    weight: Tensor<2>,
    teacher_hidden: Tensor<2>,
    teacher_weight: Tensor<2>,
    factors: Tensor<1>,
    mixture: f64,
    temperature: f64,
    softcap: f64,
    teacher_softcap: f64,
) -> Tensor<1> {
    let of = |hidden, weight: Tensor<2>, cap: f64| Projection {
        hidden,
        weight: weight.into(),
        softcap: cap.is_finite().then_some(cap),
    };
    let student = of(hidden, weight, softcap);
    let teacher = of(teacher_hidden, teacher_weight, teacher_softcap);
    let divergence = Divergence {
        mixture,
        temperature,
    };
    let sum = tiled(&student, &teacher, factors, divergence);
    sum.unwrap_or_else(|problem| panic!("{problem}"))
}

/// Returns the sum of the divergences of tokens, each with its factor, from the logits of a few tokens at a time.
fn tiled(
    student: &Projection,
    teacher: &Projection,
    factors: Tensor<1>,
    divergence: Divergence,
) -> Result<Tensor<1>, ModelError> {
    let classes = student.vocabulary().min(teacher.vocabulary());
    let teacher = teacher.constant();
    weighted_sum(student, factors, |logits, (start, count)| {
        let tile = teacher.tile(start, count);
        let of_teacher = tile.capped(tile.products());
        let [student, teacher] = [logits, of_teacher].map(|logits| logits.narrow(1, 0, classes));
        divergence.per_token(student, teacher)
    })
}

impl CausalLm {
    /// Returns the losses of a student: [`Losses::next_token`] is the mean divergence of its tokens from those of a
    /// teacher.
    ///
    /// # Panics
    /// Panics as [`sequence_losses`](Self::sequence_losses) does, without a place, for places outside the sequences, for a
    /// teacher that can't keep documents apart, and for settings that [`Divergence::per_token`] refuses.
    pub fn losses_of_divergence(&self, sequences: Sequences, distilled: Distilled<'_>) -> Losses {
        let taught = distilled.hidden_of_teacher(&sequences);
        let (packed, counted) = sequences.parts(self.config());
        let passed = self.model.forward_packed(packed);
        self.losses_of_taught(passed, counted, (taught, distilled))
    }

    /// Returns the losses of [`losses_of_divergence`](Self::losses_of_divergence), and passes the gradients of `weight`
    /// times the total loss to `take`, as [`recomputed_losses`](Self::recomputed_losses) does.
    ///
    /// # Panics
    /// Panics as `losses_of_divergence` and `recomputed_losses` do.
    pub fn recomputed_losses_of_divergence(
        &self,
        sequences: Sequences,
        distilled: Distilled<'_>,
        weight_and_seed: (f64, u64),
        take: impl FnMut(Gradients),
    ) -> Losses {
        let taught = distilled.hidden_of_teacher(&sequences);
        let losses = |model: &Self, passed: (Tensor<3>, Vec<Tensor<2>>), counted: Counted| {
            model.losses_of_taught(passed, counted, (taught, distilled))
        };
        self.recomputed(sequences, losses, weight_and_seed, take)
    }

    fn losses_of_taught(
        &self,
        (hidden, router_logits): (Tensor<3>, Vec<Tensor<2>>),
        Counted { mask, .. }: Counted,
        (taught, distilled): (Tensor<2>, Distilled<'_>),
    ) -> Losses {
        let Distilled {
            teacher,
            places,
            divergence,
        } = distilled;
        let student = self.projection(selected(hidden.clone(), places));
        let teacher = teacher.projection(taught);
        let factors = vec![1.0 / places.len() as f64; places.len()];
        let loss = divergence_loss(&student, &teacher, &factors, divergence);
        let loss = loss.unwrap_or_else(|problem| panic!("{problem}"));
        self.with_load_balancing(loss, &router_logits, mask)
            .of_hidden(hidden)
    }

    /// Returns the projection of hidden states to logits.
    pub(super) fn projection(&self, hidden: Tensor<2>) -> Projection {
        self.assert_logits();
        Projection {
            hidden,
            weight: match (self.quantised_head(), &self.lm_head) {
                (Some(head), _) => OutputWeight::Quantised(head.clone()),
                (None, Some(head)) => head.weight.val().into(),
                (None, None) => self.model.embed_tokens.weight.val().transpose().into(),
            },
            softcap: self.softcap(),
        }
    }
}

impl Distilled<'_> {
    fn hidden_of_teacher(&self, sequences: &Sequences) -> Tensor<2> {
        let teacher = self.teacher;
        assert!(
            sequences.pictures.is_none(),
            "a teacher does not take pictures"
        );
        let sequences = sequences.clone();
        // The teacher has no autodiff.
        let inner = |ids: Tensor<2, Int>| ids.without_autodiff();
        let sequences = Sequences {
            input_ids: inner(sequences.input_ids),
            targets: inner(sequences.targets),
            position_ids: inner(sequences.position_ids),
            attention_mask: sequences.attention_mask.map(inner),
            documents: sequences.documents,
            pictures: None,
        };
        let (packed, _) = sequences.parts(teacher.config());
        let (hidden, _) = teacher.model.forward_packed(packed);
        selected(hidden, self.places)
    }
}

/// Returns the hidden states at these places.
pub(super) fn selected(hidden: Tensor<3>, places: &[usize]) -> Tensor<2> {
    let [batch, seq, width] = hidden.dims();
    assert!(!places.is_empty(), "there is no token to learn");
    assert!(
        places.iter().all(|place| *place < batch * seq),
        "a token to learn is outside {batch} sequences of {seq} tokens"
    );
    let data = places.iter().map(|place| *place as i64).collect();
    let data = TensorData::new::<i64, _>(data, [places.len()]);
    let device: Device = hidden.device();
    let places = Tensor::<1, Int>::from_data(data, (&device, DType::I64));
    hidden.reshape([batch * seq, width]).select(0, places)
}
