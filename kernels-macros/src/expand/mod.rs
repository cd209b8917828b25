//! Writes the expansions, one file per form. Nothing can fail here.

mod attributes;
mod block;
mod dispatch;
mod function;
mod structure;
#[cfg(test)]
mod tests;

use proc_macro2::TokenStream;
use quote::{format_ident, quote};

use crate::check::{Form, Site};
use crate::contract::Call;

/// The item with its dispatched function and its reference.
pub(crate) fn expand(site: &Site, form: Form) -> TokenStream {
    match form {
        Form::Struct(target) => structure::expand(site, &target),
        Form::Impl(block) => block::expand_impl(site, &block),
        Form::Method(method) => block::expand_method(site, &method),
        Form::Function(function) => function::expand(site, &function),
    }
}

/// The body of a dispatched function: the site's record, then the call.
fn dispatched_body(site: &Site, form: &str, item: &str, reference: TokenStream) -> TokenStream {
    let Site {
        contract,
        key,
        runtime,
        ..
    } = site;
    let (id, form) = (contract.id, format_ident!("{form}"));
    let (key_tokens, key_json) = (key.tokens(), key.json());
    let call = (site.shape.call)(&call(site, reference));
    quote! {
        #runtime::declare_site! {
            static SITE = {
                kernel: #id,
                item: #item,
                form: Form::#form,
                key: #key_tokens,
                key_json: #key_json,
                layer: ::core::option::Option::None
            }
        }
        #call
    }
}

fn call(site: &Site, reference: TokenStream) -> Call<'_> {
    Call {
        runtime: &site.runtime,
        bindings: &site.bindings,
        key: site.key.value(&site.runtime),
        reference,
    }
}
