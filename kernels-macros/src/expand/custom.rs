//! Calls of kernels of other crates: the operands stand in a struct of theirs.

use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, quote, quote_spanned};

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
    // rustc reports a missing operand at the kernel's path.
    let span = path
        .segments
        .last()
        .map_or_else(Span::call_site, |last| last.ident.span());
    let span = span.resolved_at(Span::call_site());
    let operands = quote_spanned!(span=> #path::Operands { #(#operands),* });
    quote!(#runtime::custom(#at, #operands, #reference))
}
