//! Calls of kernels of other crates: the operands stand in a struct of theirs.

use proc_macro2::TokenStream;
use quote::{ToTokens, quote};

use super::at;
use crate::check::{Custom, Site, Source};
use crate::contract::{clone, field};

/// The dispatched call. `reference` is a closure over the struct of operands.
pub(super) fn call(site: &Site, custom: &Custom, reference: &TokenStream) -> TokenStream {
    let (runtime, path, at) = (&site.runtime, &custom.path, at(site));
    let operands = custom.operands.iter().map(|operand| {
        let name = &operand.name;
        let value = match &operand.source {
            Source::Flowing(parameter) => parameter.to_token_stream(),
            Source::Borrowed(parameter) => clone(&parameter.to_token_stream()),
            Source::Field(name) => {
                let value = field(&site.this, name);
                clone(&quote!(&#value))
            }
        };
        quote!(#name: #value)
    });
    quote!(#runtime::custom(#at, #path::Operands { #(#operands),* }, #reference))
}
