//! The expansion of an item that is in error: the generated functions, with their
//! signatures alone. Code that calls them then causes no errors of its own.

use proc_macro2::TokenStream;
use quote::quote;
use syn::ext::IdentExt;
use syn::{ReturnType, Type};

use crate::attr::{self, Attribute, Kernel};
use crate::check::{choose_variant, forward, is_fused_kernel, method, read_key, reference_name};
use crate::contract::Contract;
use crate::errors::Errors;
use crate::expand::signature;
use crate::facade;
use crate::target::{self, Function, Impl, Struct, Target};

/// The functions that the attribute would have added beside the item; nothing if that is unknown.
pub(crate) fn of(attribute: TokenStream, item: TokenStream) -> TokenStream {
    // They are reported already.
    let mut errors = Errors::default();
    let Ok(target) = target::parse(item) else {
        return TokenStream::new();
    };
    let Some(attribute) = attr::parse(attribute, &mut errors) else {
        return TokenStream::new();
    };
    // Another attribute on the same item may add them.
    let others = match &target {
        Target::Struct(target) => &target.item.attrs,
        Target::Impl(block) => &block.attributes,
        Target::Function(function) => &function.attributes,
    };
    if others.iter().any(is_fused_kernel) {
        return TokenStream::new();
    }
    match &target {
        Target::Struct(target) => of_struct(&attribute, target),
        Target::Impl(block) => of_impl(&attribute, block),
        Target::Function(function) => of_function(function),
    }
}

/// Both methods of a struct.
fn of_struct(attribute: &Attribute, target: &Struct) -> TokenStream {
    let mut errors = Errors::default();
    let contract = match &attribute.kernel {
        Kernel::Id(id) => Contract::find(&id.value()),
        Kernel::Path(_) => None,
    };
    let (Some(contract), Some(method)) = (contract, method(attribute, forward(), &mut errors))
    else {
        return TokenStream::new();
    };
    let contract = choose_variant(contract, attribute).unwrap_or(contract);
    let key = read_key(contract, attribute, &mut errors);
    let item = &target.item;
    let (visibility, name, reference) = (&item.vis, &item.ident, reference_name(&method));
    let (impl_generics, type_generics, where_clause) = item.generics.split_for_impl();
    let flowing = contract.layer.operands_of(&key).filter(|o| o.role.flows());
    let flowing = flowing.map(|operand| {
        let name = quote::format_ident!("{}", operand.name);
        (name, operand.role)
    });
    let path = facade::path();
    let returns = contract.layer.returns;
    let flowing: Vec<_> = flowing.collect();
    let signature = signature(&quote!(#path::__private), returns, &item.generics, &flowing);
    quote! {
        #[allow(warnings)]
        impl #impl_generics #name #type_generics #where_clause {
            #visibility fn #method #signature { loop {} }
            #visibility fn #reference #signature { loop {} }
        }
    }
}

/// The reference of the block's method.
fn of_impl(attribute: &Attribute, block: &Impl) -> TokenStream {
    let Some(wanted) = method(attribute, forward(), &mut Errors::default()) else {
        return TokenStream::new();
    };
    let named = |name: &syn::Ident| block.methods().find(|m| m.signature.ident.unraw() == *name);
    let taken = named(&reference_name(&wanted)).is_some();
    match named(&wanted.unraw()) {
        Some(method) if !taken && block.of_trait.is_none() => {
            let reference = of_function(method);
            let (impl_generics, _, where_clause) = block.generics.split_for_impl();
            let self_type = &block.self_type;
            quote!(impl #impl_generics #self_type #where_clause { #reference })
        }
        _ => TokenStream::new(),
    }
}

/// The reference of a function, to stand beside it.
fn of_function(function: &Function) -> TokenStream {
    let output = &function.signature.output;
    // No body without the user's has a type that is hidden.
    let is_hidden =
        matches!(output, ReturnType::Type(_, ty) if matches!(ty.as_ref(), Type::ImplTrait(_)));
    if is_hidden || function.attributes.iter().any(is_fused_kernel) {
        return TokenStream::new();
    }
    let visibility = &function.visibility;
    let mut signature = function.signature.clone();
    signature.ident = reference_name(&signature.ident);
    quote!(#[allow(warnings)] #visibility #signature { loop {} })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn outline(attribute: TokenStream, item: TokenStream, expected: TokenStream) {
        assert_eq!(of(attribute, item).to_string(), expected.to_string());
    }

    #[test]
    fn functions_keep_their_signatures() {
        let function = quote!(
            #[inline]
            pub fn f<T>(mut x: T) -> T
            where
                T: Clone,
            {
                x
            }
        );
        let reference = quote! {
            #[allow(warnings)] pub fn f_reference<T>(mut x: T) -> T where T: Clone, { loop {} }
        };
        outline(quote!("unknown"), function.clone(), reference.clone());
        outline(
            quote!("unknown", method = f),
            quote!(impl<A> S<A> { #function }),
            quote!(impl<A> S<A> { #reference }),
        );
        let of_trait = quote!(impl<A> T for S<A> { #function });
        outline(quote!("unknown", method = f), of_trait, quote!());
    }

    #[test]
    fn a_struct_has_both_methods() {
        let item = || {
            quote!(
                pub struct Rotary {
                    cos: f64,
                }
            )
        };
        let found = of(quote!("npu_fused_rope", style = wrong), item()).to_string();
        assert_eq!(found.matches("pub fn forward").count(), 2, "{found}");
        assert!(found.contains("k :"), "{found}");
        outline(quote!("unknown"), item(), quote!());
        let second = quote!(#[fused_kernel("npu_fused_rope")]);
        let item = item();
        outline(quote!("npu_fused_rope"), quote!(#second #item), quote!());
    }
}
