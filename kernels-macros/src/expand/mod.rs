//! Writes the expansions, one file per form. Nothing can fail here.

mod attributes;
mod block;
mod custom;
mod dispatch;
mod function;
#[cfg(test)]
mod snapshots;
mod structure;
#[cfg(test)]
mod tests;

use proc_macro2::TokenStream;
use quote::{format_ident, quote};

pub(crate) use structure::signature;

use crate::check::{BuiltIn, Form, Kernel, Site};
use crate::contract::Call;

/// The item with its dispatched function and its reference.
pub(crate) fn expand(form: Form) -> TokenStream {
    match form {
        Form::Struct(site, target) => structure::expand(&site, &target),
        Form::Impl(block, parts) => block::expand_impl(&block, &parts),
        Form::Method(site, method) => block::expand_method(&site, &method),
        Form::Function(site, function) => function::expand(&site, &function),
    }
}

/// The body of a dispatched function: the site's record, then the call.
fn dispatched_body(
    site: &Site,
    form: &str,
    item: &str,
    reference: impl FnOnce(&Kernel) -> TokenStream,
) -> TokenStream {
    let Site {
        kernel,
        runtime,
        layer,
        ..
    } = site;
    let form = format_ident!("{form}");
    let (id, key, key_json) = match kernel {
        Kernel::BuiltIn(BuiltIn { contract, key, .. }) => {
            let id = contract.id;
            (quote!(#id), key.tokens(), key.json())
        }
        Kernel::Custom(custom) => {
            let path = &custom.path;
            let key = quote!(SemanticsKey::Custom(#path::KEY));
            (quote!(#path::ID), key, String::new())
        }
    };
    let layer = match layer {
        Some(layer) => quote!(::core::option::Option::Some(#layer)),
        None => quote!(::core::option::Option::None),
    };
    let call = match kernel {
        Kernel::BuiltIn(kernel) => (kernel.shape.call)(&Call {
            at: at(site),
            reference: reference(&site.kernel),
            ..call(site, kernel)
        }),
        Kernel::Custom(kernel) => custom::call(site, kernel, &reference(&site.kernel)),
    };
    quote! {
        #runtime::declare_site! {
            static SITE = {
                kernel: #id,
                item: #item,
                form: Form::#form,
                key: #key,
                key_json: #key_json,
                layer: #layer
            }
        }
        #call
    }
}

/// The call of the site. The condition is evaluated here, before anything moves.
fn at(site: &Site) -> TokenStream {
    let runtime = &site.runtime;
    match &site.when {
        Some(when) => quote!(#runtime::At::when(&SITE, #when)),
        None => quote!(#runtime::At::new(&SITE)),
    }
}

/// What a contract needs; a composition needs neither the site nor a reference.
fn call<'a>(site: &'a Site, kernel: &'a BuiltIn) -> Call<'a> {
    Call {
        runtime: &site.runtime,
        key: &kernel.key,
        bindings: &kernel.bindings,
        this: &site.this,
        at: TokenStream::new(),
        reference: TokenStream::new(),
    }
}
