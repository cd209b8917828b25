//! Functions: free ones, and those of a type.

use proc_macro2::TokenStream;
use syn::ext::IdentExt;

use super::block::inside;
use super::dispatch::{Scope, split};
use super::record::Label;
use crate::check::Site;
use crate::enclosing;
use crate::origin::Origin;
use crate::target::Function;

/// The dispatched function and, beside it, the reference.
pub(super) fn expand(site: &Site, function: &Function, origin: &Origin) -> TokenStream {
    // Without `self`, a function of a type looks like a free one.
    let type_name = enclosing::of_expansion();
    let (form, scope) = match type_name {
        Some(_) => ("Method", Scope::Type),
        None => ("Function", Scope::Module),
    };
    let label = Label {
        form,
        item: inside(type_name.as_ref(), &site.method.unraw()),
        origin,
    };
    split(site, function, scope, &label)
}
