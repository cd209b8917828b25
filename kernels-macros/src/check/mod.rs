//! Checks the attribute and the item against the kernel's contract.
//!
//! An item that passes these checks expands without errors: [`crate::expand`] returns tokens, not a result.

mod arguments;
mod custom;
mod function;
mod item;
mod key;
mod operands;
mod stacked;
mod tells;
#[cfg(test)]
mod tests;
mod types;
mod variant;

pub(crate) use arguments::method;
pub(crate) use custom::{Custom, Source};
pub(crate) use item::forward;
pub(crate) use key::read as read_key;
pub(crate) use stacked::is_fused_kernel;
pub(crate) use variant::choose as choose_variant;

use proc_macro2::{Ident, TokenStream};
use quote::ToTokens;
use syn::ext::IdentExt;
use syn::{Error, LitStr, Path, Result};

use crate::attr::{self, Attribute};
use crate::contract::{Binding, Contract, Key, Shape};
use crate::errors::Errors;
use crate::near::{did_you_mean, list};
use crate::order::FirstUse;
use crate::target::{Function, Impl, Member, Struct, Target};

/// A checked attribute: everything that the expansions of all forms need.
pub(crate) struct Site {
    pub(crate) kernel: Kernel,
    /// The path of the runtime's `__private` module.
    pub(crate) runtime: TokenStream,
    pub(crate) layer: Option<LitStr>,
    /// The condition, an expression.
    pub(crate) when: Option<TokenStream>,
    /// The token `self` of the dispatched function.
    pub(crate) this: Ident,
    /// The dispatched function.
    pub(crate) method: Ident,
    pub(crate) reference: Reference,
    /// True if the body may depend on type or const parameters, of the function or of a block around it.
    pub(crate) is_generic: bool,
}

/// The kernel that the site calls.
pub(crate) enum Kernel {
    BuiltIn(BuiltIn),
    Custom(Custom),
}

/// A kernel of this crate.
pub(crate) struct BuiltIn {
    pub(crate) contract: &'static Contract,
    pub(crate) shape: &'static Shape,
    pub(crate) key: Key,
    /// In the contract's order.
    pub(crate) bindings: Vec<Binding>,
    pub(crate) first_use: FirstUse,
}

/// The place of the plain computation.
pub(crate) enum Reference {
    /// In a function beside the dispatched one.
    Beside(Ident),
    /// In the dispatched function: an impl of a trait has no room for another one.
    Inside,
}

/// A checked item, in its form.
pub(crate) enum Form {
    Struct(Site, Struct),
    Impl(Impl, Vec<Part>),
    Method(Site, Function),
    Function(Site, Function),
}

/// A member of an impl block.
pub(crate) enum Part {
    Plain(Member),
    Dispatched(Box<(Site, Function)>),
}

/// The kernel that an attribute names.
#[derive(Clone, Copy)]
enum Named<'a> {
    BuiltIn(&'static Contract),
    Custom(&'a Path),
}

/// Checks everything; all errors are reported together.
pub(crate) fn check(attribute: &Attribute, target: Target, errors: &mut Errors) -> Option<Form> {
    let named = find(attribute, errors)?;
    match target {
        Target::Struct(target) => item::check_struct(named, attribute, target, errors),
        Target::Impl(target) => item::check_impl(named, attribute, target, errors),
        Target::Function(target) => item::check_function(named, attribute, target, errors),
    }
}

fn find<'a>(attribute: &'a Attribute, errors: &mut Errors) -> Option<Named<'a>> {
    match &attribute.kernel {
        attr::Kernel::Id(id) => {
            let first = errors.keep(find_id(id))?;
            errors
                .keep(choose_variant(first, attribute))
                .map(Named::BuiltIn)
        }
        attr::Kernel::Path(path) => {
            let word = path.to_token_stream().to_string();
            let Some(contract) = Contract::find(&word) else {
                return Some(Named::Custom(path));
            };
            errors.at(path, format!("write the id in quotes: `\"{word}\"`"));
            errors
                .keep(choose_variant(contract, attribute))
                .map(Named::BuiltIn)
        }
    }
}

/// A kernel that there is, for no item of a model.
const OPTIMISER: &str = "npu_fused_adam_w";

fn find_id(id: &LitStr) -> Result<&'static Contract> {
    let text = id.value();
    let known = Contract::ids;
    Contract::find(&text).ok_or_else(|| {
        if text == OPTIMISER {
            let message = format!(
                "`{text}` is an optimiser's step, which no layer has: make the optimiser with \
                 `AdamWConfig::init_fused` of `burn_kernels::optim`"
            );
            return Error::new_spanned(id, message);
        }
        let near = did_you_mean(&text, known());
        let all = list(known(), "and");
        let message = format!(
            "unknown kernel `{text}`{near}\nthe kernels are {all}; one of another crate is \
             named by its path, without quotes"
        );
        Error::new_spanned(id, message)
    })
}

/// `forward_reference` for `forward`.
pub(crate) fn reference_name(method: &Ident) -> Ident {
    quote::format_ident!("{}_reference", method.unraw(), span = method.span())
}

impl Kernel {
    /// The kernel's name in docs.
    pub(crate) fn name(&self) -> String {
        match self {
            Self::BuiltIn(BuiltIn { contract, .. }) => contract.id.to_owned(),
            Self::Custom(Custom { path, .. }) => {
                path.to_token_stream().to_string().replace(' ', "")
            }
        }
    }
}
