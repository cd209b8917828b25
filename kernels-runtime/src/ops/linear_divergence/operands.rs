use crate::ops::compute_dtype;
use crate::ops::fused::declare::operation;
use crate::ops::fused::{Like, Saved};
use crate::ops::operands::{self, Described, Mismatch, one_dtype, require};
use crate::semantics::{LinearDivergenceKey, Shift};
use burn::backend::Shape;
use burn::tensor::DType;
use kernels_simd::linear_divergence::chunk;
use serde::{Deserialize, Serialize};

const OP: &str = "Linear divergence";

operation! {
    /// The divergence of a student's tokens from a teacher's. The forward pass keeps the divergence of each token and the wanted
    /// gradients.
    LinearDivergence {
        name: "linear_divergence",
        title: "Linear divergence",
        kernel: "npu_fused_linear_divergence",
        saved: 4,
        dtypes: dtypes,
        room: room,
    }
    inputs Inputs
    /// The checked operands of a divergence.
    Operands<T> {
        /// The student's hidden states, `[tokens, width]`.
        hidden: One<2> "the student's hidden states",
        /// The weight of the student's output layer, `[width, classes]`. A table of embeddings is transposed.
        weight: One<2> "the student's weight",
        /// The bias of the student's output layer, `[classes]`. Present exactly if the key has biases.
        bias: Maybe<1> "the student's bias" if |of| of.key.shift == Shift::Bias,
        /// The teacher's hidden states, `[tokens, width]`, of any width.
        teacher_hidden: One<2> "the teacher's hidden states",
        /// The weight of the teacher's output layer, `[width, classes]`.
        teacher_weight: One<2> "the teacher's weight",
        /// The bias of the teacher's output layer, `[classes]`. Present exactly if the key has biases.
        teacher_bias: Maybe<1> "the teacher's bias" if |of| of.key.shift == Shift::Bias,
        /// The factor of each token, `[tokens]`, in f32 (f64 for f64 tensors).
        factors: One<1> "the tensor of factors",
    }
    numbers {
        /// The numbers of the call.
        settings: Settings,
        /// The variant to compute.
        key: LinearDivergenceKey,
    }
}

/// The numbers of one call.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// `β`, the weight of the teacher in the mixture, from 0 to 1.
    pub mixture: f64,
    /// The number that logits are divided by, above 0.
    pub temperature: f64,
    /// The limit of the student's logits before the temperature, above 0, if there is one.
    pub cap: Option<f64>,
    /// The limit of the teacher's logits, likewise.
    pub teacher_cap: Option<f64>,
}

impl Settings {
    /// Returns those of a mixture, with a temperature of 1 and without caps.
    pub fn of_mixture(mixture: f64) -> Self {
        Self {
            mixture,
            temperature: 1.0,
            cap: None,
            teacher_cap: None,
        }
    }

    fn check(self) -> Result<(), Mismatch> {
        require!(
            (0.0..=1.0).contains(&self.mixture),
            "{OP}: the mixture is {}, but must be from 0 to 1",
            self.mixture
        );
        for (name, number) in [
            ("temperature", Some(self.temperature)),
            ("cap", self.cap),
            ("teacher's cap", self.teacher_cap),
        ] {
            let number = number.unwrap_or(1.0);
            require!(
                number > 0.0 && (number as f32).is_normal(),
                "{OP}: the {name} is {number}, but must be a number above 0 in the normal range of f32"
            );
        }
        Ok(())
    }
}

/// The sizes of the axes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// The number of tokens.
    pub tokens: usize,
    /// The widths of a hidden state of the student and of the teacher.
    pub widths: [usize; 2],
    /// The numbers of their classes. Those that only one of them has are padding.
    pub classes: [usize; 2],
}

/// Returns the dtype of student and teacher. Factors have that of the computation.
fn dtypes<T: Described>(operands: &Operands<T>) -> Result<DType, Mismatch> {
    let always = [
        ("the student's hidden states", &operands.hidden),
        ("the student's weight", &operands.weight),
        ("the teacher's hidden states", &operands.teacher_hidden),
        ("the teacher's weight", &operands.teacher_weight),
    ];
    let biases = [
        ("the student's bias", &operands.bias),
        ("the teacher's bias", &operands.teacher_bias),
    ];
    let biases = biases
        .into_iter()
        .filter_map(|(name, bias)| Some((name, bias.as_ref()?)));
    let dtype = one_dtype(OP, always.into_iter().chain(biases))?;
    let (found, wide) = (operands.factors.dtype(), compute_dtype(dtype));
    require!(
        found == wide,
        "{OP}: factors are {found:?}, but must be {wide:?}, because hidden states are {dtype:?}"
    );
    Ok(dtype)
}

/// Returns a bound on the bytes that a kernel on the CPU holds besides the results: the logits of a chunk, copies of its hidden
/// states, each group's share of their gradient, and the numbers of each token.
fn room<T: Described>(operands: &Operands<T>) -> usize {
    const GROUPS: usize = kernels_simd::linear_cross_entropy::Sizes::GROUPS;
    const NUMBERS_OF_A_TOKEN: usize = 32;
    let Sizes {
        tokens,
        widths: [width, other],
        classes: [one, two],
    } = operands.sizes();
    let (classes, bytes) = (one.min(two), compute_dtype(operands.hidden.dtype()).size());
    let logits = classes.saturating_mul(2);
    let copies = width.saturating_add(other).saturating_mul(4);
    let shares = width.saturating_mul(GROUPS);
    let token = [logits, copies, shares, (GROUPS + 1) * NUMBERS_OF_A_TOKEN];
    let token = token.into_iter().fold(0, usize::saturating_add);
    let numbers = chunk(tokens, classes, bytes).saturating_mul(token);
    numbers.saturating_mul(bytes)
}

/// Returns the numbers of tokens and of classes of a student or a teacher, whose tensors must go together.
fn side<T: Described>(
    of: &str,
    hidden: &T,
    weight: &T,
    bias: &Option<T>,
) -> Result<[usize; 2], Mismatch> {
    let [tokens, width] = operands::dims(
        OP,
        &format!("the tensor of the {of}'s hidden states"),
        hidden,
    )?;
    let [inputs, classes] = operands::dims(OP, &format!("the {of}'s weight"), weight)?;
    require!(
        inputs == width,
        "{OP}: the {of}'s weight, {:?}, takes {inputs} elements, but its hidden states have {width}",
        [inputs, classes]
    );
    if let Some(bias) = bias {
        let [elements] = operands::dims(OP, &format!("the {of}'s bias"), bias)?;
        require!(
            elements == classes,
            "{OP}: the {of}'s bias has {elements} elements, but there are {classes} classes"
        );
    }
    Ok([tokens, classes])
}

impl<T: Described> Operands<T> {
    fn check(&self) -> Result<(), Mismatch> {
        self.settings.check()?;
        let [tokens, classes] = side("student", &self.hidden, &self.weight, &self.bias)?;
        let [others, other_classes] = side(
            "teacher",
            &self.teacher_hidden,
            &self.teacher_weight,
            &self.teacher_bias,
        )?;
        require!(
            tokens == others,
            "{OP}: the student has {tokens} tokens, but the teacher {others}"
        );
        let [factors] = operands::dims(OP, "the tensor of factors", &self.factors)?;
        require!(
            factors == tokens,
            "{OP}: there are {factors} factors, but {tokens} tokens"
        );
        require!(
            classes > 0 && other_classes > 0,
            "{OP}: the student has {classes} classes and the teacher {other_classes}, but both must have one"
        );
        Ok(())
    }

    /// Returns the sizes of the axes.
    pub fn sizes(&self) -> Sizes {
        let [tokens, width] = self.hidden.shape().dims();
        let [_, other] = self.teacher_hidden.shape().dims();
        let [_, classes] = self.weight.shape().dims();
        let [_, other_classes] = self.teacher_weight.shape().dims();
        Sizes {
            tokens,
            widths: [width, other],
            classes: [classes, other_classes],
        }
    }

    fn results(&self) -> [Like; 1] {
        [(Shape::new([1]), compute_dtype(self.hidden.dtype()))]
    }

    /// Describes the divergences, and the gradients for a gradient of the result of 1. That of the weight is `[classes, width]`.
    fn saved(&self) -> [Saved; 4] {
        let wide = compute_dtype(self.hidden.dtype());
        let Sizes {
            tokens,
            widths: [width, _],
            classes: [classes, _],
        } = self.sizes();
        let or_nothing = |name, shape| Saved::or_nothing(name, (shape, wide));
        [
            Saved::in_shape("the divergences", (Shape::new([tokens]), wide)),
            or_nothing("the gradient of hidden states", Shape::new([tokens, width])),
            or_nothing("the gradient of the weight", Shape::new([classes, width])),
            or_nothing("the gradient of the bias", Shape::new([classes])),
        ]
    }
}
