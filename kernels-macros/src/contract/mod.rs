//! The kernels' contracts: what each computes, what it reads, and how the runtime is called.
//!
//! One file per kernel. A contract is data plus two functions that write a call; a new kernel is a
//! new file and a line in [`CONTRACTS`].

mod rmsnorm;
mod rope;
mod swiglu;

use proc_macro2::{Ident, TokenStream};
use quote::quote;

/// Every kernel that `#[fused_kernel]` knows.
pub(crate) static CONTRACTS: &[&Contract] =
    &[&rmsnorm::CONTRACT, &swiglu::CONTRACT, &rope::CONTRACT];

/// What a kernel promises, and what it needs.
pub(crate) struct Contract {
    /// The name in the attribute.
    pub(crate) id: &'static str,
    /// The docs of a generated `forward`, in Markdown.
    pub(crate) docs: &'static str,
    /// The variant of `SemanticsKey`, and before `Key` the name of the struct in it.
    pub(crate) key: &'static str,
    /// The same in JSON.
    pub(crate) op: &'static str,
    /// The parameters of the maths; they make the semantics key.
    pub(crate) settings: &'static [Setting],
    /// The kernel as a layer's forward pass: on a struct, or on a method with `self`.
    pub(crate) layer: Shape,
    /// The kernel as a function without `self`.
    pub(crate) function: Shape,
    /// The plain composition, the body of a generated `forward_reference`.
    pub(crate) composition: fn(&Call<'_>) -> TokenStream,
    /// Fields that show that the struct computes something else.
    pub(crate) foreign_fields: &'static [ForeignField],
}

/// What the kernel reads and returns in one of its shapes.
pub(crate) struct Shape {
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
}

/// What an operand may be, and where it may stand.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// The tensor that flows through the layer: the one parameter that is left, of any name.
    Stream,
    /// One of several tensors that flow through: a parameter, found by name.
    Tensor { rank: Option<usize> },
    /// A learned vector: a field, or a parameter.
    Weight,
    /// A small positive number: a field, or a parameter.
    Epsilon,
    /// A table of cosines or sines: a field, or a parameter.
    Table,
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
    /// Values that mean something, but that the kernel does not compute: (value, why not).
    pub(crate) refused: &'static [(&'static str, &'static str)],
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

/// A field that shows that the struct form would compute something else than the struct means.
pub(crate) struct ForeignField {
    pub(crate) names: &'static [&'static str],
    pub(crate) why: &'static str,
}

impl Role {
    /// `true` for the tensors that flow through, in contrast to what belongs to the layer.
    pub(crate) fn flows(self) -> bool {
        matches!(self, Self::Stream | Self::Tensor { .. })
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
            Self::Epsilon => "a number, `f64` or `f32`",
            Self::Table => "a table, `Tensor<2>`, `Tensor<3>` or `Tensor<4>`",
            Self::Layer => "a layer with `forward(Tensor<D>) -> Tensor<D>`, like `Linear`",
        }
    }
}

/// Where an operand was found.
pub(crate) struct Binding {
    pub(crate) operand: &'static Operand,
    pub(crate) place: Place,
}

/// The value of an operand, seen from the generated code.
pub(crate) enum Place {
    /// `self.name`.
    Field(Ident),
    /// A parameter of the function.
    Parameter { name: Ident, by_reference: bool },
}

/// What a contract needs for writing a call.
pub(crate) struct Call<'a> {
    /// The path of the runtime's `__private` module.
    pub(crate) runtime: &'a TokenStream,
    pub(crate) bindings: &'a [Binding],
    /// The key as a value of its own struct.
    pub(crate) key: TokenStream,
    /// The closure that runs the reference on the tensors that flow through.
    pub(crate) reference: TokenStream,
}

impl Call<'_> {
    /// The operand by value; it is moved.
    pub(crate) fn value(&self, operand: &str) -> TokenStream {
        match self.place(operand) {
            Place::Field(name) => field(name),
            Place::Parameter { name, .. } => quote!(#name),
        }
    }

    /// The operand by reference.
    pub(crate) fn borrow(&self, operand: &str) -> TokenStream {
        match self.place(operand) {
            Place::Field(name) => {
                let field = field(name);
                quote::quote_spanned!(call_site_at(name)=> &#field)
            }
            Place::Parameter {
                name,
                by_reference: true,
            } => quote!(#name),
            Place::Parameter { name, .. } => quote!(&#name),
        }
    }

    /// The operand for a callee that takes owned or borrowed values. A parameter by value is
    /// cloned, since the reference takes it too; a tensor's clone shares its memory.
    pub(crate) fn shared(&self, operand: &str) -> TokenStream {
        match self.place(operand) {
            Place::Parameter {
                name,
                by_reference: false,
            } => {
                quote!(::core::clone::Clone::clone(&#name))
            }
            _ => self.borrow(operand),
        }
    }

    fn place(&self, operand: &str) -> &Place {
        let found = self
            .bindings
            .iter()
            .find(|binding| binding.operand.name == operand);
        &found
            .expect("a contract reads only the operands that its shape lists")
            .place
    }
}

/// `self.name`, reported where the name stands.
fn field(name: &Ident) -> TokenStream {
    quote::quote_spanned!(call_site_at(name)=> self.#name)
}

/// The place of the name with the hygiene of the attribute, so that `self` is the method's.
fn call_site_at(name: &Ident) -> proc_macro2::Span {
    name.span().resolved_at(proc_macro2::Span::call_site())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the rest of the crate takes for granted of every contract.
    #[test]
    fn contracts_are_well_formed() {
        for contract in CONTRACTS {
            let mut names: Vec<&str> = contract
                .settings
                .iter()
                .map(|setting| setting.name)
                .collect();
            names.extend(["crate", "method"]);
            for shape in [&contract.layer, &contract.function] {
                let mut all = names.clone();
                all.extend(shape.operands.iter().map(|operand| operand.name));
                let count = all.len();
                all.sort_unstable();
                all.dedup();
                assert_eq!(
                    all.len(),
                    count,
                    "{}: an argument's name is used twice",
                    contract.id
                );
                for operand in shape.operands {
                    assert!(operand.role == Role::Stream || operand.usual.contains(&operand.name));
                }
            }
            for setting in contract.settings {
                assert!(
                    !setting.choices.is_empty(),
                    "{}: {}",
                    contract.id,
                    setting.name
                );
            }
        }
    }

    #[test]
    fn the_layer_shape_has_fields_to_bind() {
        for contract in CONTRACTS {
            assert!(
                contract
                    .layer
                    .operands
                    .iter()
                    .any(|operand| operand.role.may_be_field())
            );
        }
    }
}
