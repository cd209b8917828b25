//! The order in which a layer's parameters are used for the first time.
//!
//! Burn initialises a parameter when it is first used, and draws from the device's random generator
//! then. So a kernel has to use a layer's operands in the order in which the body does, or one seed
//! gives two models. [`body`] follows Rust's order of evaluation through the body; where only the
//! running program can tell, in helpers and branches, the order is not known, and the expansion has
//! the body run first while a parameter is not initialised.

mod body;
mod branch;
mod known;
mod literal;
mod pattern;
#[cfg(test)]
mod tests;
mod value;

use proc_macro2::{Group, Ident};
use syn::ItemStruct;
use syn::ext::IdentExt;

use crate::contract::{Binding, Role};

/// Pairs of operands of which one takes the other's result: `(later, earlier)`.
pub(crate) type Flow = &'static [(&'static str, &'static str)];

/// The order in which the operands that hold parameters are used first.
pub(crate) struct FirstUse {
    operands: Vec<&'static str>,
    is_known: bool,
}

impl FirstUse {
    /// The order of a struct is that of its fields, as far as the results of one don't go into another.
    pub(crate) fn of_fields(item: &ItemStruct, bindings: &[Binding], flow: Flow) -> Self {
        let position = |binding: &&Binding| {
            let mut names = item.fields.iter().map(|field| field.ident.as_ref());
            names.position(|name| name == binding.place.field())
        };
        let mut bindings = with_parameters(bindings);
        bindings.sort_by_key(position);
        Self {
            operands: within(flow, bindings.iter().map(name).collect()),
            is_known: true,
        }
    }

    /// The order of a function is that in which its body evaluates them. It is not known where only the running
    /// program can tell, or where the kernel can't follow.
    pub(crate) fn of_body(body: &Group, bindings: &[Binding], flow: Flow) -> Self {
        let bindings = with_parameters(bindings);
        let natural: Vec<_> = bindings.iter().map(name).collect();
        if natural.len() < 2 {
            return Self {
                operands: natural,
                is_known: true,
            };
        }
        let found = body::walk(&bindings, body);
        let mut operands: Vec<_> = found.uses.iter().map(|&use_| natural[use_]).collect();
        let is_complete = operands.len() == natural.len();
        let unused = |name: &&&str| !operands.contains(*name);
        let rest: Vec<_> = natural.iter().filter(unused).copied().collect();
        operands.extend(rest);
        let ordered = within(flow, operands.clone());
        Self {
            is_known: found.is_certain && is_complete && ordered == operands,
            operands: ordered,
        }
    }

    /// Returns true if the body has this order in every run.
    pub(crate) fn is_known(&self) -> bool {
        self.is_known
    }

    /// The operands that hold parameters, each once.
    pub(crate) fn operands(&self) -> &[&'static str] {
        &self.operands
    }

    /// Returns true if `first` is used before `second`; both hold parameters.
    pub(crate) fn is_before(&self, first: &str, second: &str) -> bool {
        let position = |name| self.operands.iter().position(|operand| *operand == name);
        position(first) < position(second)
    }
}

fn name(binding: &&Binding) -> &'static str {
    binding.operand.name
}

/// The operands that hold parameters. The elements of a list are seen at run time alone.
fn with_parameters(bindings: &[Binding]) -> Vec<&Binding> {
    let holds = |role| {
        matches!(
            role,
            Role::Layer
                | Role::Experts
                | Role::Rotation
                | Role::Stacked { .. }
                | Role::Matrix
                | Role::Weight
        )
    };
    let bindings = bindings.iter();
    bindings
        .filter(|binding| holds(binding.operand.role))
        .collect()
}

/// The order with everything moved back behind what it takes the result of.
fn within(flow: Flow, mut order: Vec<&'static str>) -> Vec<&'static str> {
    for (later, earlier) in flow {
        let position = |name| order.iter().position(|operand| operand == name);
        if let (Some(from), Some(to)) = (position(later), position(earlier))
            && from < to
        {
            let operand = order.remove(from);
            order.insert(to, operand);
        }
    }
    order
}

/// The operand that a field of this name is.
fn field_among(operands: &[&Binding], name: &Ident) -> Option<usize> {
    let is_it = |binding: &&Binding| {
        let field = binding.place.field();
        field.is_some_and(|field| field.unraw() == name.unraw())
    };
    operands.iter().position(is_it)
}
