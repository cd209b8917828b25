//! A user's function, taken apart: the dispatched one in its place, and its body beside it.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens, quote};
use syn::{FnArg, Pat};

use super::{attributes, dispatched_body};
use crate::check::Site;
use crate::contract::Place;
use crate::target::{Function, turbofish};

/// How the reference is reached from the dispatched function.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Scope {
    /// Both are free functions of one module.
    Module,
    /// Both are associated functions of one type.
    Type,
}

/// The dispatched function and the reference, as two items.
pub(super) fn split(
    site: &Site,
    function: &Function,
    scope: Scope,
    form: &str,
    item: &str,
) -> TokenStream {
    let dispatched = dispatched(site, function, scope, form, item);
    let reference = reference(site, function, scope);
    quote!(#dispatched #reference)
}

/// The user's signature with a new body.
fn dispatched(
    site: &Site,
    function: &Function,
    scope: Scope,
    form: &str,
    item: &str,
) -> TokenStream {
    let attributes = attributes::for_dispatched(&function.attributes);
    let visibility = &function.visibility;
    let mut signature = function.signature.clone();
    for input in &mut signature.inputs {
        // Only the plain body changes its parameters.
        if let FnArg::Typed(typed) = input
            && let Pat::Ident(pattern) = typed.pat.as_mut()
        {
            pattern.mutability = None;
        }
    }
    let body = dispatched_body(site, form, item, call_reference(site, function, scope));
    quote! {
        #(#attributes)*
        #visibility #signature { #body }
    }
}

/// The user's function under another name.
fn reference(site: &Site, function: &Function, scope: Scope) -> TokenStream {
    let attributes = attributes::for_reference(&function.attributes);
    let (visibility, body) = (&function.visibility, &function.body);
    let mut signature = function.signature.clone();
    signature.ident = site.reference.clone();
    let target = match scope {
        Scope::Module => site.method.to_string(),
        Scope::Type => format!("Self::{}", site.method),
    };
    let docs = format!(
        " The plain computation of [`{target}`], which the kernel `{}` is verified against.",
        site.contract.id
    );
    quote! {
        #[doc = #docs]
        #(#attributes)*
        #visibility #signature #body
    }
}

/// A closure over the tensors that flow through, in the contract's order, that calls the reference
/// with all parameters in the user's order.
fn call_reference(site: &Site, function: &Function, scope: Scope) -> TokenStream {
    let flowing: Vec<Ident> = site
        .bindings
        .iter()
        .filter(|binding| binding.operand.role.flows())
        .filter_map(|binding| match &binding.place {
            Place::Parameter { name, .. } => Some(fresh(name)),
            Place::Field(_) => None,
        })
        .collect();
    let arguments = function
        .parameters()
        .filter_map(|parameter| match parameter.pat.as_ref() {
            Pat::Ident(pattern) => {
                let inner = flowing.iter().find(|flowing| **flowing == pattern.ident);
                Some(inner.unwrap_or(&pattern.ident).to_token_stream())
            }
            _ => None,
        });
    let name = &site.reference;
    let generics = turbofish(&function.signature.generics);
    let path = match (function.has_receiver(), scope) {
        (true, _) => quote!(self.#name #generics),
        (false, Scope::Type) => quote!(Self::#name #generics),
        (false, Scope::Module) => quote!(#name #generics),
    };
    quote!(|#(#flowing),*| #path(#(#arguments),*))
}

/// The same name, invisible to the user's code.
fn fresh(name: &Ident) -> Ident {
    let mut name = name.clone();
    name.set_span(Span::mixed_site());
    name
}
