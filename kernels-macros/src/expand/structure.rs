//! Structs: the macro writes `forward` and `forward_reference`.

use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use syn::{GenericParam, Generics, Ident};

use super::{attributes, call, dispatched_body};
use crate::check::Site;
use crate::contract::{Place, Returns, Role};
use crate::target::Struct;

/// The struct as it was written, and an impl block beside it.
pub(super) fn expand(site: &Site, target: &Struct) -> TokenStream {
    let Struct { item, tokens } = target;
    let Site {
        contract,
        method,
        reference,
        ..
    } = site;
    let (visibility, name) = (&item.vis, &item.ident);
    let attributes = attributes::for_impl(&item.attrs);
    let (impl_generics, type_generics, where_clause) = item.generics.split_for_impl();

    let flowing = flowing(site);
    let arguments: Vec<&Ident> = flowing.iter().map(|(name, _)| name).collect();
    let signature = signature(site, &item.generics, &flowing);
    let reference_call = quote!(|#(#arguments),*| self.#reference(#(#arguments),*));
    let path = format!("{name}::{method}");
    let body = dispatched_body(site, "Struct", &path, reference_call);
    let composition = (contract.composition)(&call(site, TokenStream::new()));

    let docs = format!(
        "{}\n\nRuns the kernel `{}` ({}) where the device has it, else [`Self::{reference}`].",
        contract.docs,
        contract.id,
        site.key.written(),
    );
    let reference_docs = format!(
        "The plain computation of [`Self::{method}`], which the kernel `{}` is verified against.",
        contract.id
    );
    quote! {
        #tokens

        #(#attributes)*
        impl #impl_generics #name #type_generics #where_clause {
            #[doc = #docs]
            #visibility fn #method #signature { #body }

            #[doc = #reference_docs]
            #visibility fn #reference #signature { #composition }
        }
    }
}

/// The parameters: each tensor that flows through, with its rank if the kernel fixes one.
fn flowing(site: &Site) -> Vec<(Ident, Option<usize>)> {
    let flowing =
        site.bindings
            .iter()
            .filter_map(|binding| match (&binding.place, binding.operand.role) {
                (Place::Parameter { name, .. }, Role::Tensor { rank }) => {
                    Some((name.clone(), rank))
                }
                (Place::Parameter { name, .. }, _) => Some((name.clone(), None)),
                (Place::Field(_), _) => None,
            });
    flowing.collect()
}

/// From the generics to the return type. A rank that the kernel leaves open is a parameter.
fn signature(site: &Site, generics: &Generics, flowing: &[(Ident, Option<usize>)]) -> TokenStream {
    let runtime = &site.runtime;
    let open_rank = free_name(generics);
    let tensor = |rank: Option<usize>| {
        let rank = match rank {
            Some(rank) => quote!(#rank),
            None => quote!(#open_rank),
        };
        quote!(#runtime::burn::tensor::Tensor<#rank>)
    };

    let parameters = flowing.iter().map(|(name, rank)| {
        let tensor = tensor(*rank);
        quote!(#name: #tensor)
    });
    let is_open = flowing.iter().any(|(_, rank)| rank.is_none());
    let generics = is_open.then(|| quote!(<const #open_rank: usize>));
    let first = tensor(flowing.first().and_then(|(_, rank)| *rank));
    let result = match site.shape.returns {
        Returns::Tensor => first,
        Returns::Pair => quote!((#first, #first)),
    };
    quote!(#generics (&self, #(#parameters),*) -> #result)
}

/// `D`, or `D1`, `D2` if the struct has a parameter of that name.
fn free_name(generics: &Generics) -> Ident {
    let is_taken = |name: &Ident| {
        generics.params.iter().any(|parameter| match parameter {
            GenericParam::Type(parameter) => parameter.ident == *name,
            GenericParam::Const(parameter) => parameter.ident == *name,
            GenericParam::Lifetime(_) => false,
        })
    };
    let mut name = format_ident!("D");
    for i in 1.. {
        if !is_taken(&name) {
            break;
        }
        name = format_ident!("D{i}");
    }
    name
}
