//! The path of the facade crate, seen from the user's crate.

use proc_macro_crate::{FoundCrate, crate_name};
use proc_macro2::{Ident, Span, TokenStream};
use quote::quote;

/// The path of `burn-kernels` under the name that the user's `Cargo.toml` gives it.
pub(crate) fn path() -> TokenStream {
    path_of(crate_name("burn-kernels").ok())
}

/// Not found (no Cargo, or the crate comes through another one) and found as itself (its own
/// tests, examples and doc tests) both mean that it has its own name, if it is there at all.
fn path_of(found: Option<FoundCrate>) -> TokenStream {
    match found {
        Some(FoundCrate::Name(name)) => {
            let name = Ident::new(&name, Span::call_site());
            quote!(::#name)
        }
        Some(FoundCrate::Itself) | None => quote!(::burn_kernels),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_renamed_dependency_is_found_under_its_name() {
        let path = |found| path_of(found).to_string();
        let renamed = FoundCrate::Name("kernels".to_owned());
        assert_eq!(path(Some(renamed)), quote!(::kernels).to_string());
        let own = quote!(::burn_kernels).to_string();
        assert_eq!(path(Some(FoundCrate::Itself)), own);
        assert_eq!(path(None), own);
    }
}
