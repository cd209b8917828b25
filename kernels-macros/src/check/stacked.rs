//! Several attributes on one item: each method may have one kernel.

use proc_macro2::Ident;
use syn::ext::IdentExt;
use syn::{Attribute, Meta};

use super::arguments::METHOD;
use crate::attr;
use crate::errors::Errors;
use crate::target::Function;

/// Refuses another attribute of the item that is for the same method.
pub(super) fn refuse_same_method(others: &[Attribute], method: &Ident, errors: &mut Errors) {
    for other in others.iter().filter(|other| is_fused_kernel(other)) {
        if method_of(other).is_none_or(|other| other.unraw() == method.unraw()) {
            let message = format!(
                "two kernels for `{method}`; say which method this one is for: \
                 `method = my_method`"
            );
            errors.at(other, message);
        }
    }
}

/// Refuses an attribute on a function that has a kernel already.
pub(super) fn refuse_second(function: &Function, errors: &mut Errors) {
    for other in function
        .attributes
        .iter()
        .filter(|other| is_fused_kernel(other))
    {
        let name = &function.signature.ident;
        errors.at(other, format!("two kernels for `{name}`; leave one out"));
    }
}

/// `true` for this attribute itself.
pub(crate) fn is_fused_kernel(attribute: &Attribute) -> bool {
    let last = attribute.path().segments.last();
    last.is_some_and(|last| last.ident == "fused_kernel")
}

/// The method that an attribute names; `forward` if it names none, nothing if it is in error.
fn method_of(attribute: &Attribute) -> Option<Ident> {
    let Meta::List(list) = &attribute.meta else {
        return None;
    };
    let parsed = attr::parse(list.tokens.clone(), &mut Errors::default())?;
    match parsed.get(METHOD) {
        Some(argument) => argument.as_name().ok(),
        None => Some(Ident::new("forward", proc_macro2::Span::call_site())),
    }
}
