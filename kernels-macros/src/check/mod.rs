//! Checks the attribute and the item against the kernel's contract.
//!
//! What passes here expands without errors: [`crate::expand`] returns tokens, not a result.

mod arguments;
mod bind;
mod function;
mod item;
mod key;
#[cfg(test)]
mod tests;
mod types;

pub(crate) use key::Key;

use proc_macro2::{Ident, TokenStream};
use syn::Result;

use crate::attr::Attribute;
use crate::contract::{Binding, CONTRACTS, Contract, Shape};
use crate::errors::Errors;
use crate::near::{did_you_mean, list};
use crate::target::{Function, Impl, Member, Struct, Target};
use arguments::Arguments;

/// A checked attribute: everything that the expansions of all forms need.
pub(crate) struct Site {
    pub(crate) contract: &'static Contract,
    pub(crate) shape: &'static Shape,
    pub(crate) key: Key,
    pub(crate) bindings: Vec<Binding>,
    /// The path of the runtime's `__private` module.
    pub(crate) runtime: TokenStream,
    /// The dispatched function.
    pub(crate) method: Ident,
    /// The function that keeps the plain computation.
    pub(crate) reference: Ident,
}

/// A checked item, in its form.
pub(crate) enum Form {
    Struct(Struct),
    Impl(Box<Block>),
    Method(Function),
    Function(Function),
}

/// An impl block, cut open at the method that is dispatched.
pub(crate) struct Block {
    pub(crate) block: Impl,
    pub(crate) before: Vec<Member>,
    pub(crate) method: Function,
    pub(crate) after: Vec<Member>,
}

/// Checks everything; reports all errors together.
pub(crate) fn check(attribute: &Attribute, target: Target) -> Result<(Site, Form)> {
    let contract = find(attribute)?;
    match target {
        Target::Struct(target) => item::check_struct(contract, attribute, target),
        Target::Impl(target) => item::check_impl(contract, attribute, target),
        Target::Function(target) => item::check_function(contract, attribute, target),
    }
}

fn find(attribute: &Attribute) -> Result<&'static Contract> {
    let id = attribute.kernel.value();
    let known = || CONTRACTS.iter().map(|contract| contract.id);
    let found = CONTRACTS.iter().find(|contract| contract.id == id);
    found.copied().ok_or_else(|| {
        let near = did_you_mean(&id, known());
        let all = list(known(), "and");
        let message = format!("there is no kernel `{id}`{near}\nthe kernels are {all}");
        syn::Error::new_spanned(&attribute.kernel, message)
    })
}

/// Puts the parts of a site together; the errors of every part are in `errors`.
fn site(
    contract: &'static Contract,
    shape: &'static Shape,
    arguments: &Arguments<'_>,
    bindings: Option<Vec<Binding>>,
    method: Ident,
    errors: &mut Errors,
) -> Option<Site> {
    let key = errors.keep(Key::read(contract, arguments));
    let runtime = errors.keep(arguments.runtime());
    Some(Site {
        contract,
        shape,
        key: key?,
        bindings: bindings?,
        runtime: runtime?,
        reference: reference_name(&method),
        method,
    })
}

/// `forward_reference` for `forward`.
fn reference_name(method: &Ident) -> Ident {
    quote::format_ident!("{method}_reference")
}
