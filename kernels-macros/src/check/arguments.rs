//! The arguments after the kernel: which names there are, and those that every kernel takes.

use proc_macro2::{Ident, TokenStream};
use quote::quote;
use syn::{LitStr, Path};

use crate::attr::{Argument, Attribute};
use crate::contract::{CONTRACTS, Contract, Key, Role, Shape};
use crate::errors::Errors;
use crate::near::{did_you_mean, list};
use crate::{facade, scan};

pub(super) const CRATE: &str = "crate";
pub(super) const METHOD: &str = "method";
pub(super) const LAYER: &str = "layer";
pub(super) const WHEN: &str = "when";
pub(super) const IGNORE: &str = "ignore";

/// The arguments that every kernel takes.
pub(super) const COMMON: [&str; 5] = [METHOD, LAYER, WHEN, IGNORE, CRATE];

/// The values of the common arguments, apart from `method`.
pub(super) struct Common {
    /// The path of the runtime's `__private` module.
    pub(super) runtime: TokenStream,
    pub(super) layer: Option<LitStr>,
    /// The condition, an expression.
    pub(super) when: Option<TokenStream>,
}

/// Reads the common arguments. `has_self` says whether a condition may use `self`.
pub(super) fn read_common(attribute: &Attribute, has_self: bool, errors: &mut Errors) -> Common {
    let given = |name| attribute.get(name).filter(|argument| !argument.is_broken());
    Common {
        runtime: runtime(given(CRATE), errors),
        layer: given(LAYER).and_then(|argument| layer(argument, errors)),
        when: given(WHEN).map(|argument| condition(argument, has_self, errors)),
    }
}

/// The name after `method =`; `fallback` without one, nothing if it is in error.
pub(crate) fn method(attribute: &Attribute, fallback: Ident, errors: &mut Errors) -> Option<Ident> {
    match attribute.get(METHOD) {
        Some(argument) if argument.is_broken() => None,
        Some(argument) => errors.keep(argument.as_name()),
        None => Some(fallback),
    }
}

/// Refuses `method =` where the attribute stands on the function itself.
pub(super) fn refuse_method(attribute: &Attribute, errors: &mut Errors) {
    if let Some(argument) = attribute.get(METHOD) {
        errors.at(
            &argument.name,
            "the attribute stands on the function itself; leave `method` out, or move the \
             attribute to the impl block",
        );
    }
}

/// Refuses `ignore(..)` where there is a body: what that reads, the kernel must read too.
pub(super) fn refuse_ignore(attribute: &Attribute, errors: &mut Errors) {
    if let Some(argument) = attribute.get(IGNORE) {
        errors.at(
            &argument.name,
            "`ignore` is for the struct form, which has no body; here the body shows which fields have a part in \
             the computation: leave `ignore` out",
        );
    }
}

/// Refuses names that the kernel does not know in this shape, or under these settings.
pub(super) fn refuse_unknown(
    contract: &'static Contract,
    shape: &'static Shape,
    key: &Key,
    attribute: &Attribute,
    errors: &mut Errors,
) {
    let settings = contract.settings.iter().map(|setting| setting.name);
    let operands = shape.operands_of(key);
    let operands = operands.filter(|operand| operand.role != Role::Stream);
    let variant = contract.variant.iter().map(|(name, _)| *name);
    let known: Vec<&str> = operands
        .map(|operand| operand.name)
        .chain(variant)
        .chain(settings)
        .chain(COMMON)
        .collect();
    for Argument { name, .. } in &attribute.arguments {
        let written = name.to_string();
        if known.contains(&written.as_str()) {
            continue;
        }
        if let Some(message) = unknown(contract, shape, key, &written, &known) {
            errors.at(name, message);
        }
    }
}

/// Returns the error of an unknown argument, or `None` if a setting in error may bring it.
fn unknown(
    contract: &'static Contract,
    shape: &'static Shape,
    key: &Key,
    written: &str,
    known: &[&str],
) -> Option<String> {
    let id = contract.id;
    let named = |shape: &'static Shape| {
        let operands = shape.operands.iter();
        operands.filter(move |operand| operand.name == written)
    };
    if let Some(operand) = named(shape).find(|operand| operand.role != Role::Stream) {
        key.brings(operand.when)?;
        let condition = operand.when.written();
        return Some(format!("`{written}` is read only with {condition}"));
    }
    if let Some(other) = contract.variants().find(|other| knows(other, written)) {
        let (other, this) = (other.unlike(contract), contract.unlike(other));
        return Some(format!(
            "`{written}` belongs to {other}, and this is {this}; each stands on an item of its own"
        ));
    }
    let elsewhere = CONTRACTS
        .iter()
        .find(|other| other.settings.iter().any(|setting| setting.name == written));
    if let Some(other) = elsewhere {
        let other = other.id;
        return Some(format!(
            "`{written}` is a setting of `{other}`, and this is `{id}`"
        ));
    }
    let near = did_you_mean(written, known.iter().copied());
    let all = list(known, "and");
    Some(format!(
        "`{id}` has no argument `{written}` here{near}\nit takes {all}"
    ))
}

/// Returns true if a contract has a setting or an operand of this name.
fn knows(contract: &'static Contract, name: &str) -> bool {
    let mut operands = contract.shapes().flat_map(|shape| shape.operands);
    contract.settings.iter().any(|setting| setting.name == name)
        || operands.any(|operand| operand.name == name && operand.role != Role::Stream)
}

fn runtime(argument: Option<&Argument>, errors: &mut Errors) -> TokenStream {
    let path = match argument {
        None => facade::path(),
        Some(argument) => match syn::parse2::<Path>(argument.value.clone()) {
            Ok(path) => quote!(#path),
            Err(_) => {
                let message = "`crate` takes the path of burn-kernels, as in \
                               `crate = ::my_facade::kernels`";
                errors.at(&argument.value, message);
                TokenStream::new()
            }
        },
    };
    quote!(#path::__private)
}

fn layer(argument: &Argument, errors: &mut Errors) -> Option<LitStr> {
    let example = "`layer` takes a name in quotes, as in `layer = \"RMSNorm\"`";
    match syn::parse2::<LitStr>(argument.value.clone()) {
        Ok(name) if !name.value().trim().is_empty() => Some(name),
        Ok(name) => {
            errors.at(name, format!("the name is empty; {example}"));
            None
        }
        Err(_) => {
            errors.at(&argument.value, example);
            None
        }
    }
}

fn condition(argument: &Argument, has_self: bool, errors: &mut Errors) -> TokenStream {
    if !has_self && scan::mentions(argument.value.clone(), "self") {
        errors.at(
            &argument.value,
            "a function has no `self`; `when` may use the function's parameters",
        );
    }
    argument.value.clone()
}
