//! The kernels' contracts: what each computes, what it reads, and how the runtime is called.
//!
//! One file per kernel. A contract is data plus a few functions that write tokens; a new kernel is
//! a new file and a line in [`CONTRACTS`]. Settings decide which operands there are, so the key is
//! read first and operands are found by it.

mod add_rmsnorm;
mod attention;
mod call;
mod causal_conv1d;
mod cross_entropy;
#[cfg(test)]
mod documented;
mod gated_delta_rule;
mod key;
mod layernorm;
mod linear;
mod linear_cross_entropy;
mod linear_divergence;
mod moe;
mod qk_norm_rope;
mod rmsnorm;
mod rope;
mod softcap;
mod swiglu;
#[cfg(test)]
mod tests;

pub(crate) use call::{Binding, CallContext, Place, clone, field};
pub(crate) use key::Key;

use proc_macro2::TokenStream;

use crate::order::Flow;

/// Every kernel that `#[fused_kernel]` knows by its id. Of one with variants, the first is the
/// default.
pub(crate) static CONTRACTS: &[&Contract] = &[
    &rmsnorm::CONTRACT,
    &add_rmsnorm::CONTRACT,
    &layernorm::CONTRACT,
    &linear::CONTRACT,
    &swiglu::CONTRACT,
    &rope::CONTRACT,
    &qk_norm_rope::CONTRACT,
    &softcap::CONTRACT,
    &causal_conv1d::CONTRACT,
    &gated_delta_rule::CONTRACT,
    &attention::HEADS,
    &attention::LAYER,
    &cross_entropy::CONTRACT,
    &linear_cross_entropy::CONTRACT,
    &linear_divergence::CONTRACT,
    &moe::STACKED,
    &moe::LIST,
    &moe::BLOCK,
];

/// The operands, settings and results of a kernel.
pub(crate) struct Contract {
    /// The name in the attribute.
    pub(crate) id: &'static str,
    /// The arguments that select it among the contracts of its id, such as
    /// `part = block`. Contracts that agree in all before one have the same argument next.
    pub(crate) variant: &'static [(&'static str, &'static str)],
    /// The docs of a generated `forward`, in Markdown.
    pub(crate) docs: fn(&Key) -> String,
    /// The variant of `SemanticsKey`, and before `Key` the name of the struct in it.
    pub(crate) key: &'static str,
    /// The same in JSON.
    pub(crate) op: &'static str,
    /// The parameters of the maths; they make the semantics key.
    pub(crate) settings: &'static [Setting],
    /// Settings that no computation has together.
    pub(crate) conflicts: &'static [Conflict],
    /// The layers and parameters that come after others whatever a body does.
    pub(crate) flow: Flow,
    /// The kernel as a layer's forward pass: on a struct, or on a method with `self`.
    pub(crate) layer: Shape,
    /// The kernel as a function of its tensors alone, or why it can't be one.
    pub(crate) function: Result<Shape, &'static str>,
    /// The plain composition, the body of a generated `forward_reference`.
    pub(crate) composition: fn(&CallContext<'_>) -> TokenStream,
    /// Fields that show another computation.
    pub(crate) foreign_fields: &'static [ForeignField],
    /// Names of items that show another computation.
    pub(crate) item_names: &'static [Tell],
    /// Calls in a body that show another computation.
    pub(crate) body_calls: &'static [Tell],
}

/// The operands and results of a kernel in one of its shapes.
pub(crate) struct Shape {
    /// In the order in which the runtime takes what flows through.
    pub(crate) operands: &'static [Operand],
    pub(crate) returns: Returns,
    /// Writes the dispatched call.
    pub(crate) call: fn(&CallContext<'_>) -> TokenStream,
}

/// The result of a shape.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Returns {
    Tensor,
    /// Two tensors of the type of the first one that flows through. `does` is the predicate of a sentence about the
    /// kernel, `written` the type of both.
    Pair {
        does: &'static str,
        written: &'static str,
    },
    /// Two tensors as of `Pair` if the condition holds, otherwise one.
    PairWith {
        condition: Condition,
        does: &'static str,
        written: &'static str,
    },
    /// A tensor and the router's logits.
    WithLogits,
    /// A loss of one axis.
    Loss,
}

/// One thing that the kernel reads.
pub(crate) struct Operand {
    /// The name in the contract and in the attribute.
    pub(crate) name: &'static str,
    pub(crate) role: Role,
    /// The names under which it is found without being named in the attribute.
    pub(crate) usual: &'static [&'static str],
    pub(crate) when: When,
}

/// When the kernel reads an operand.
#[derive(Clone, Copy)]
pub(crate) enum When {
    Always,
    /// All of these hold.
    With(&'static [Condition]),
    /// A field or parameter has a usual name, or the attribute names one.
    IfThere,
}

/// One setting has one of these values.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Condition {
    pub(crate) setting: &'static str,
    pub(crate) values: &'static [&'static str],
}

/// The kind of an operand, and the places where it may be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Role {
    /// The tensor that flows through the layer: the one parameter that is left, of any name.
    Stream,
    /// One of several tensors that flow through: a parameter, found by name.
    Tensor { rank: Option<usize> },
    /// The experts of each token, integers that flow through: a parameter, found by name.
    Indices,
    /// The class of each token, integers that flow through: a parameter, found by name.
    Targets,
    /// A learned vector: a field, or a parameter.
    Weight,
    /// A learned matrix: a field, or a parameter.
    Matrix,
    /// A small positive number: a field, or a parameter.
    Epsilon,
    /// Any other number: a field, or a parameter.
    Number,
    /// A number of elements: a field, or a parameter.
    Count,
    /// An integer that may be negative: a field, or a parameter.
    Integer,
    /// A table of cosines or sines: a field, or a parameter.
    Table,
    /// A table for three positions a token: a field, or a parameter.
    SectionTable,
    /// The lengths of three sections: a field, or a parameter.
    Sections,
    /// The lengths of sequences: a field, or a parameter.
    Lengths,
    /// A layer with `forward`: always a field.
    Layer,
    /// One weight or bias of all experts, stacked in a tensor of this rank: a field, or a parameter.
    Stacked { rank: usize },
    /// A layer of experts: always a field.
    Experts,
    /// A layer that rotates queries and keys: always a field.
    Rotation,
    /// A list of experts: a field, or a parameter by reference.
    List,
    /// A layer in each element of the list: a field of the element.
    OfElement,
}

/// A parameter of the maths.
pub(crate) struct Setting {
    /// The name in the attribute, in the key's struct and in JSON.
    pub(crate) name: &'static str,
    /// The enum of the runtime.
    pub(crate) type_name: &'static str,
    /// The values that the kernel can compute; the first is the default.
    pub(crate) choices: &'static [Choice],
    /// Other words for it: (value, what to write).
    pub(crate) other_words: &'static [(&'static str, &'static str)],
}

/// A value of a setting.
pub(crate) struct Choice {
    /// In the attribute.
    pub(crate) written: &'static str,
    /// The variant of the setting's enum.
    pub(crate) variant: &'static str,
    /// In JSON.
    pub(crate) json: &'static str,
}

/// Settings that exclude each other.
pub(crate) struct Conflict {
    /// The settings conflict if all of these hold.
    pub(crate) all: &'static [Condition],
    /// Why, and what to write.
    pub(crate) message: &'static str,
}

/// A field that shows that the item computes something else than the settings say.
pub(crate) struct ForeignField {
    pub(crate) names: &'static [&'static str],
    /// The setting that makes it belong to the kernel.
    pub(crate) unless: Option<Condition>,
    /// The operands that it stands for: nothing more is said of their absence.
    pub(crate) instead_of: &'static [&'static str],
    /// The meaning, and the correction.
    pub(crate) advice: &'static str,
}

/// A word that tells what is computed.
pub(crate) struct Tell {
    /// In lower case without underscores.
    pub(crate) words: &'static [&'static str],
    /// The settings that compute this; without one, none do.
    pub(crate) fits: Option<Condition>,
    /// The meaning, and the correction.
    pub(crate) advice: &'static str,
}

impl Contract {
    /// The contract of an id; of several, the default.
    pub(crate) fn find(id: &str) -> Option<&'static Self> {
        CONTRACTS.iter().copied().find(|contract| contract.id == id)
    }

    /// Every id, once.
    pub(crate) fn ids() -> impl Iterator<Item = &'static str> {
        let is_first = |contract: &&&'static Self| {
            Self::find(contract.id).is_some_and(|first| std::ptr::eq(first, **contract))
        };
        CONTRACTS
            .iter()
            .filter(is_first)
            .map(|contract| contract.id)
    }

    /// All contracts of the id.
    pub(crate) fn variants(&self) -> impl Iterator<Item = &'static Self> {
        let id = self.id;
        CONTRACTS
            .iter()
            .copied()
            .filter(move |other| other.id == id)
    }

    /// Returns the first argument that differs from another contract of its id, `` `part = block` ``.
    pub(crate) fn unlike(&self, other: &Self) -> String {
        let own = self.variant.iter();
        let mut own = own.filter(|pair| !other.variant.contains(pair));
        let pair = own
            .next()
            .map(|(name, value)| format!("`{name} = {value}`"));
        pair.unwrap_or_default()
    }

    /// The shapes that it has.
    pub(crate) fn shapes(&'static self) -> impl Iterator<Item = &'static Shape> {
        std::iter::once(&self.layer).chain(self.function.as_ref().ok())
    }
}

impl Shape {
    /// The result under the settings.
    pub(crate) fn returns(&self, key: &Key) -> Returns {
        match self.returns {
            Returns::PairWith {
                condition,
                does,
                written,
            } => match key.holds(Some(condition)) {
                Some(true) => Returns::Pair { does, written },
                _ => Returns::Tensor,
            },
            returns => returns,
        }
    }

    /// The operands that the settings bring. Those of a setting that is in error are left out.
    pub(crate) fn operands_of(&self, key: &Key) -> impl Iterator<Item = &'static Operand> {
        self.operands
            .iter()
            .filter(|operand| key.brings(operand.when) == Some(true))
    }
}

impl When {
    /// `true` if it may be left out.
    pub(crate) fn is_optional(self) -> bool {
        matches!(self, Self::IfThere)
    }

    /// The conditions; all must hold.
    pub(crate) fn conditions(self) -> &'static [Condition] {
        match self {
            Self::With(conditions) => conditions,
            Self::Always | Self::IfThere => &[],
        }
    }

    /// `` `bias = all` and `projections = chunked` ``.
    pub(crate) fn written(self) -> String {
        let conditions = self.conditions().iter();
        let written: Vec<String> = conditions.map(|condition| condition.written()).collect();
        written.join(" and ")
    }
}

impl Condition {
    /// `` `gating = after_norm` or `gating = before_norm` ``.
    pub(crate) fn written(self) -> String {
        let pairs = self.values.iter();
        let pairs = pairs.map(|value| format!("{} = {value}", self.setting));
        crate::near::list(pairs, "or")
    }
}

/// A condition in a contract's data.
const fn is(setting: &'static str, values: &'static [&'static str]) -> Condition {
    Condition { setting, values }
}

/// A choice that is written as in JSON.
const fn choice(written: &'static str, variant: &'static str) -> Choice {
    Choice {
        written,
        variant,
        json: written,
    }
}

/// The number that is added to an operand: `0` or `1`.
const OFFSETS: &[Choice] = &[
    Choice {
        written: "0",
        variant: "Zero",
        json: "zero",
    },
    Choice {
        written: "1",
        variant: "One",
        json: "one",
    },
];

impl Role {
    /// `true` for the tensors that flow through, in contrast to what belongs to the layer.
    pub(crate) fn flows(self) -> bool {
        matches!(
            self,
            Self::Stream | Self::Tensor { .. } | Self::Indices | Self::Targets
        )
    }

    /// The rank of a tensor that flows through, if the kernel fixes one.
    pub(crate) fn rank(self) -> Option<usize> {
        match self {
            Self::Tensor { rank } => rank,
            Self::Indices => Some(2),
            Self::Targets => Some(1),
            _ => None,
        }
    }

    /// `true` if a parameter may hold the operand.
    pub(crate) fn may_be_parameter(self) -> bool {
        !matches!(
            self,
            Self::Layer | Self::Experts | Self::Rotation | Self::OfElement
        )
    }

    /// `true` if the attribute may say the operand's value itself, or name a constant.
    pub(crate) fn may_be_constant(self) -> bool {
        matches!(
            self,
            Self::Epsilon | Self::Number | Self::Count | Self::Integer
        )
    }

    /// `true` if a field may hold the operand.
    pub(crate) fn may_be_field(self) -> bool {
        !self.flows()
    }

    /// The types that fit, for messages.
    pub(crate) fn expected(self) -> &'static str {
        match self {
            Self::Stream | Self::Tensor { rank: None } => "a float tensor by value, `Tensor<D>`",
            Self::Tensor { rank: Some(1) } => "a float tensor by value, `Tensor<1>`",
            Self::Tensor { rank: Some(2) } => "a float tensor by value, `Tensor<2>`",
            Self::Tensor { rank: Some(3) } => "a float tensor by value, `Tensor<3>`",
            Self::Tensor { rank: Some(_) } => "a float tensor by value, `Tensor<4>`",
            Self::Indices => "integers by value, `Tensor<2, Int>`",
            Self::Targets => "integers by value, `Tensor<1, Int>`",
            Self::Weight => "a vector, `Param<Tensor<1>>` or `Tensor<1>`",
            Self::Matrix => "a matrix, `Param<Tensor<2>>` or `Tensor<2>`",
            Self::Epsilon | Self::Number => "a number, `f64` or `f32`",
            Self::Count => "a number of elements, `usize`",
            Self::Integer => "an integer, `i64` or `i32`",
            Self::Table => "a table, `Tensor<2>`, `Tensor<3>` or `Tensor<4>`",
            Self::SectionTable => "a table for three positions, `Tensor<4>`",
            Self::Sections => "three lengths, `[usize; 3]` or `Vec<usize>`",
            Self::Lengths => "lengths, `&[usize]` or `Vec<usize>`",
            Self::Layer => "a layer with `forward(Tensor<D>) -> Tensor<D>`, like `Linear`",
            Self::Stacked { rank: 3 } => {
                "the weights of all experts, `Param<Tensor<3>>` or `Tensor<3>`; experts that are \
                 layers in a list are `experts = list`"
            }
            Self::Stacked { .. } => "the biases of all experts, `Param<Tensor<2>>` or `Tensor<2>`",
            Self::Experts => {
                "a layer with `forward(Tensor<2>, Tensor<2, Int>, Tensor<2>) -> Tensor<2>`; give a \
                 list of experts a struct of its own, with `experts = list`"
            }
            Self::Rotation => {
                "a layer with `forward(Tensor<4>, Tensor<4>) -> (Tensor<4>, Tensor<4>)` on queries and keys, like \
                 `burn_kernels::nn::RotaryEncoding`"
            }
            Self::List => "the experts in a list, `Vec<Mlp>`; a parameter by reference, `&[Mlp]`",
            Self::OfElement => "a layer of each expert, like `Linear`",
        }
    }
}
