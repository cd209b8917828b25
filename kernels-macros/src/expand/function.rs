//! Free functions.

use proc_macro2::TokenStream;

use super::dispatch::{Scope, split};
use crate::check::Site;
use crate::target::Function;

/// The dispatched function and, beside it, the reference.
pub(super) fn expand(site: &Site, function: &Function) -> TokenStream {
    split(
        site,
        function,
        Scope::Module,
        "Function",
        &site.method.to_string(),
    )
}
