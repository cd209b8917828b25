//! Free functions.

use proc_macro2::TokenStream;
use syn::ext::IdentExt;

use super::dispatch::{Scope, split};
use super::record::Label;
use crate::check::Site;
use crate::origin::Origin;
use crate::target::Function;

/// The dispatched function and, beside it, the reference.
pub(super) fn expand(site: &Site, function: &Function, origin: &Origin) -> TokenStream {
    let label = Label {
        form: "Function",
        item: site.method.unraw().to_string(),
        origin,
    };
    split(site, function, Scope::Module, &label)
}
