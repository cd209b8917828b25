//! Free functions.

use proc_macro2::TokenStream;
use syn::ext::IdentExt;

use super::dispatch::{Scope, split};
use crate::check::Site;
use crate::target::Function;

/// The dispatched function and, beside it, the reference.
pub(super) fn expand(site: &Site, function: &Function) -> TokenStream {
    let item = site.method.unraw().to_string();
    split(site, function, Scope::Module, "Function", &item)
}
