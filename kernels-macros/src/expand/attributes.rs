//! The user's attributes, and the generated items that get them.

use syn::punctuated::Punctuated;
use syn::{Attribute, Meta, Signature, Token, parse_quote};

/// Attributes that must hold for the plain body as for the dispatched function. All others (docs,
/// `no_mangle`, attribute macros like `instrument`) stay on the dispatched function alone, so that
/// they act once.
const SHARED: &[&str] = &[
    "allow",
    "cfg",
    "cold",
    "deny",
    "deprecated",
    "expect",
    "forbid",
    "inline",
    "must_use",
    "target_feature",
    "track_caller",
    "warn",
];

/// Attributes of a struct that must hold for an impl block beside it.
const FOR_IMPL: &[&str] = &["allow", "cfg", "deny", "forbid", "warn"];

/// For the dispatched function: everything, but an expected lint is only allowed, since what
/// raises it may have moved away with the body. Messages about operands name the line of the call.
pub(super) fn for_dispatched(attributes: &[Attribute], signature: &Signature) -> Vec<Attribute> {
    let mut kept: Vec<_> = attributes.iter().map(allowed).collect();
    let excludes = |one: &Attribute| {
        one.path().is_ident("track_caller") || one.path().is_ident("target_feature")
    };
    if !kept.iter().any(excludes) && signature.abi.is_none() {
        kept.push(parse_quote!(#[track_caller]));
    }
    kept
}

/// For the function that keeps the plain body.
pub(super) fn for_reference(attributes: &[Attribute]) -> Vec<Attribute> {
    attributes.iter().filter_map(shared).collect()
}

/// The attribute if it is a shared one; of a `cfg_attr`, the shared ones in it.
fn shared(attribute: &Attribute) -> Option<Attribute> {
    if !attribute.path().is_ident("cfg_attr") {
        return is_one_of(attribute, SHARED).then(|| attribute.clone());
    }
    let parts = attribute
        .parse_args_with(Punctuated::<Meta, Token![,]>::parse_terminated)
        .ok()?;
    let mut parts = parts.into_iter();
    let condition = parts.next()?;
    let shared: Vec<Meta> = parts
        .filter(|meta| SHARED.iter().any(|name| meta.path().is_ident(name)))
        .collect();
    (!shared.is_empty()).then(|| parse_quote!(#[cfg_attr(#condition, #(#shared),*)]))
}

/// For an impl block that the macro writes beside a struct.
pub(super) fn for_impl(attributes: &[Attribute]) -> Vec<Attribute> {
    let mut kept: Vec<Attribute> = attributes
        .iter()
        .map(allowed)
        .filter(|attribute| is_one_of(attribute, FOR_IMPL))
        .collect();
    if attributes
        .iter()
        .any(|attribute| attribute.path().is_ident("deprecated"))
    {
        kept.push(parse_quote!(#[allow(deprecated)]));
    }
    kept
}

fn is_one_of(attribute: &Attribute, names: &[&str]) -> bool {
    names.iter().any(|name| attribute.path().is_ident(name)) || is_hidden(attribute)
}

/// `#[doc(hidden)]` and its like, in contrast to text.
fn is_hidden(attribute: &Attribute) -> bool {
    attribute.path().is_ident("doc") && matches!(attribute.meta, Meta::List(_))
}

fn allowed(attribute: &Attribute) -> Attribute {
    match &attribute.meta {
        Meta::List(list) if list.path.is_ident("expect") => {
            let lints = &list.tokens;
            parse_quote!(#[allow(#lints)])
        }
        _ => attribute.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quote::{ToTokens, quote};

    fn text(attributes: Vec<Attribute>) -> String {
        attributes
            .iter()
            .map(|attribute| attribute.to_token_stream().to_string())
            .collect()
    }

    #[test]
    fn attributes_are_sorted_by_what_they_mean() {
        let all: Vec<Attribute> = vec![
            parse_quote!(#[doc = "text"]),
            parse_quote!(#[inline]),
            parse_quote!(#[expect(clippy::a)]),
            parse_quote!(#[tracing::instrument]),
        ];
        let signature = parse_quote!(fn forward(&self));
        let dispatched = text(for_dispatched(&all, &signature));
        assert!(dispatched.contains("track_caller"));
        assert!(dispatched.contains("instrument") && dispatched.contains("text"));
        assert!(dispatched.contains(&quote!(#[allow(clippy::a)]).to_string()));
        let reference = text(for_reference(&all));
        assert!(!reference.contains("instrument") && !reference.contains("text"));
        assert!(reference.contains(&quote!(#[expect(clippy::a)]).to_string()));
    }

    #[test]
    fn conditional_attributes_are_sorted_too() {
        let all = vec![
            parse_quote!(#[cfg_attr(a, inline, tracing::instrument(skip(self)))]),
            parse_quote!(#[cfg_attr(b, instrument)]),
        ];
        let expected = quote!(#[cfg_attr(a, inline)]).to_string();
        assert_eq!(text(for_reference(&all)), expected);
        let signature = parse_quote!(fn forward(&self));
        assert!(text(for_dispatched(&all, &signature)).contains("instrument (skip"));
    }

    #[test]
    fn a_deprecated_struct_has_a_quiet_impl() {
        let all = vec![
            parse_quote!(#[deprecated]),
            parse_quote!(#[cfg(a)]),
            parse_quote!(#[derive(B)]),
        ];
        let expected = quote!(#[cfg(a)] #[allow(deprecated)]);
        assert_eq!(
            text(for_impl(&all)).replace(' ', ""),
            expected.to_string().replace(' ', "")
        );
    }
}
