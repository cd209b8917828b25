//! Impl blocks and methods in them.

use proc_macro2::{Group, TokenStream};
use quote::{ToTokens, quote};
use syn::ext::IdentExt;

use super::dispatch::{Scope, split};
use super::record::Label;
use crate::check::{Part, Site};
use crate::origin::Origin;
use crate::target::{Function, Impl, Member};

/// The block with its method taken apart; everything else stays as it is.
pub(super) fn expand_impl(block: &Impl, parts: &[Part], origin: &Origin) -> TokenStream {
    let type_name = block.type_name();
    let parts = parts.iter().map(|part| match part {
        Part::Plain(member) => member.to_token_stream(),
        Part::Dispatched(dispatched) => {
            let (site, method) = dispatched.as_ref();
            let name = site.method.unraw();
            let item = match type_name {
                Some(type_name) => format!("{}::{name}", type_name.unraw()),
                None => name.to_string(),
            };
            let label = Label {
                form: "Impl",
                item,
                origin,
            };
            split(site, method, Scope::Type, &label)
        }
    });
    let (header, inner) = (&block.header, &block.inner_attributes);
    quote!(#header { #(#inner)* #(#parts)* })
}

/// The method taken apart. The type that it belongs to is out of sight.
pub(super) fn expand_method(site: &Site, method: &Function, origin: &Origin) -> TokenStream {
    let label = Label {
        form: "Method",
        item: site.method.unraw().to_string(),
        origin,
    };
    split(site, method, Scope::Type, &label)
}

impl ToTokens for Member {
    fn to_tokens(&self, tokens: &mut TokenStream) {
        match self {
            Self::Method(method) => method.to_tokens(tokens),
            Self::Other(other) => other.to_tokens(tokens),
        }
    }
}

impl ToTokens for Function {
    fn to_tokens(&self, tokens: &mut TokenStream) {
        let Self {
            attributes,
            visibility,
            signature,
            body,
        } = self;
        let body: &Group = body;
        tokens.extend(quote!(#(#attributes)* #visibility #signature #body));
    }
}
