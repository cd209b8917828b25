//! The kernels' contracts: what each computes, what it reads, and how the runtime is called.
//!
//! One file per kernel. A contract is data plus a few functions that write tokens; a new kernel is
//! a new file and a line in [`CONTRACTS`]. Settings decide which operands there are, so the key is
//! read first and operands are found by it.

mod call;
mod key;
mod rmsnorm;
mod rope;
mod swiglu;
#[cfg(test)]
mod tests;

pub(crate) use call::{Binding, Call, Place, clone, field};
pub(crate) use key::Key;

use proc_macro2::TokenStream;

/// Every kernel that `#[fused_kernel]` knows by its id.
pub(crate) static CONTRACTS: &[&Contract] =
    &[&rmsnorm::CONTRACT, &swiglu::CONTRACT, &rope::CONTRACT];

/// What a kernel promises, and what it needs.
pub(crate) struct Contract {
    /// The name in the attribute.
    pub(crate) id: &'static str,
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
    /// The kernel as a layer's forward pass: on a struct, or on a method with `self`.
    pub(crate) layer: Shape,
    /// The kernel as a function of its tensors alone.
    pub(crate) function: Shape,
    /// The plain composition, the body of a generated `forward_reference`.
    pub(crate) composition: fn(&Call<'_>) -> TokenStream,
    /// Fields that show another computation.
    pub(crate) foreign_fields: &'static [ForeignField],
    /// Names of items that show another computation.
    pub(crate) item_names: &'static [Tell],
    /// Calls in a body that show another computation.
    pub(crate) body_calls: &'static [Tell],
}

/// What the kernel reads and returns in one of its shapes.
pub(crate) struct Shape {
    /// In the order in which the runtime takes what flows through.
    pub(crate) operands: &'static [Operand],
    pub(crate) returns: Returns,
    /// Writes the dispatched call.
    pub(crate) call: fn(&Call<'_>) -> TokenStream,
}

/// The result of a shape.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Returns {
    Tensor,
    Pair,
}

/// One thing that the kernel reads.
pub(crate) struct Operand {
    /// Its name in the contract and in the attribute.
    pub(crate) name: &'static str,
    pub(crate) role: Role,
    /// The names under which it is found without being named in the attribute.
    pub(crate) usual: &'static [&'static str],
    /// The setting that brings it; without one it is always there.
    pub(crate) when: Option<Condition>,
}

/// One setting has one of these values.
#[derive(Clone, Copy)]
pub(crate) struct Condition {
    pub(crate) setting: &'static str,
    pub(crate) values: &'static [&'static str],
}

/// What an operand may be, and where it may stand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Role {
    /// The tensor that flows through the layer: the one parameter that is left, of any name.
    Stream,
    /// One of several tensors that flow through: a parameter, found by name.
    Tensor { rank: Option<usize> },
    /// A learned vector: a field, or a parameter.
    Weight,
    /// A small positive number: a field, or a parameter.
    Epsilon,
    /// Any other number: a field, or a parameter.
    Number,
    /// A number of elements: a field, or a parameter.
    Count,
    /// A table of cosines or sines: a field, or a parameter.
    Table,
    /// A table for three positions a token: a field, or a parameter.
    SectionTable,
    /// The lengths of three sections: a field, or a parameter.
    Sections,
    /// A layer with `forward`: always a field.
    Layer,
}

/// A parameter of the maths.
pub(crate) struct Setting {
    /// The name in the attribute, in the key's struct and in JSON.
    pub(crate) name: &'static str,
    /// The enum of the runtime.
    pub(crate) type_name: &'static str,
    /// What the kernel can compute; the first is the default.
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
    /// It is one if all of these hold.
    pub(crate) all: &'static [Condition],
    /// Why, and what to write.
    pub(crate) message: &'static str,
}

/// A field that shows that the item computes something else than the settings say.
pub(crate) struct ForeignField {
    pub(crate) names: &'static [&'static str],
    /// The setting with which it is no longer foreign.
    pub(crate) unless: Option<Condition>,
    /// The operands that it stands for: nothing more is said of their absence.
    pub(crate) instead_of: &'static [&'static str],
    /// What it means, and what to write.
    pub(crate) advice: &'static str,
}

/// A word that tells what is computed.
pub(crate) struct Tell {
    /// In lower case without underscores.
    pub(crate) words: &'static [&'static str],
    /// The settings that compute this; without one, none do.
    pub(crate) fits: Option<Condition>,
    /// What it means, and what to write.
    pub(crate) advice: &'static str,
}

impl Contract {
    /// The contract of an id.
    pub(crate) fn find(id: &str) -> Option<&'static Self> {
        CONTRACTS.iter().copied().find(|contract| contract.id == id)
    }
}

impl Shape {
    /// The operands that the settings bring. Those of a setting that is in error are left out.
    pub(crate) fn operands_of(&self, key: &Key) -> impl Iterator<Item = &'static Operand> {
        self.operands
            .iter()
            .filter(|operand| key.holds(operand.when) == Some(true))
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

/// What is added to an operand: `0` or `1`.
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
        matches!(self, Self::Stream | Self::Tensor { .. })
    }

    /// The rank of a tensor that flows through, if the kernel fixes one.
    pub(crate) fn rank(self) -> Option<usize> {
        match self {
            Self::Tensor { rank } => rank,
            _ => None,
        }
    }

    /// `true` if a parameter may hold the operand.
    pub(crate) fn may_be_parameter(self) -> bool {
        self != Self::Layer
    }

    /// `true` if a field may hold the operand.
    pub(crate) fn may_be_field(self) -> bool {
        !self.flows()
    }

    /// The types that fit, for messages.
    pub(crate) fn expected(self) -> &'static str {
        match self {
            Self::Stream | Self::Tensor { rank: None } => "a float tensor by value, `Tensor<D>`",
            Self::Tensor { rank: Some(_) } => "a float tensor by value, `Tensor<4>`",
            Self::Weight => "a vector, `Param<Tensor<1>>` or `Tensor<1>`",
            Self::Epsilon | Self::Number => "a number, `f64` or `f32`",
            Self::Count => "a number of elements, `usize`",
            Self::Table => "a table, `Tensor<2>`, `Tensor<3>` or `Tensor<4>`",
            Self::SectionTable => "a table for three positions, `Tensor<4>`",
            Self::Sections => "three lengths, `[usize; 3]` or `Vec<usize>`",
            Self::Layer => "a layer with `forward(Tensor<D>) -> Tensor<D>`, like `Linear`",
        }
    }
}
