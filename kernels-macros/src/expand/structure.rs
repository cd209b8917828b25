//! Structs: the macro writes `forward` and `forward_reference`.

use proc_macro2::{Span, TokenStream};
use quote::{format_ident, quote};
use syn::ext::IdentExt;
use syn::{GenericParam, Generics, Ident};

use super::record::Label;
use super::{Body, attributes, call, dispatched_body, one_pattern};
use crate::check::{BuiltIn, Kernel, Reference, Site};
use crate::contract::{Place, Returns, Role};
use crate::origin::Origin;
use crate::target::Struct;

/// The struct as it was written, and an impl block beside it.
pub(super) fn expand(site: &Site, target: &Struct, origin: &Origin) -> TokenStream {
    // Nothing else passes the check.
    let (Kernel::BuiltIn(kernel), Reference::Beside(reference)) = (&site.kernel, &site.reference)
    else {
        return target.tokens.clone();
    };
    let Struct { item, tokens } = target;
    let (visibility, name, method) = (&item.vis, &item.ident, &site.method);
    let attributes = attributes::for_impl(&item.attrs);
    let (impl_generics, type_generics, where_clause) = item.generics.split_for_impl();

    let flowing = flowing(kernel);
    let arguments: Vec<&Ident> = flowing.iter().map(|(name, _)| name).collect();
    let signature = signature(
        &site.runtime,
        kernel.shape.returns(&kernel.key),
        &item.generics,
        &flowing,
    );
    let label = Label {
        form: "Struct",
        item: format!("{}::{}", name.unraw(), method.unraw()),
        origin,
    };
    let open_rank = open_rank(&item.generics, &flowing);
    let body = dispatched_body(site, &label, open_rank.clone(), |_| {
        let pattern = one_pattern(&arguments);
        let (runtime, copy) = (&site.runtime, Ident::new("copy", Span::mixed_site()));
        Body {
            closure: quote!(&mut |#pattern| {
                let #copy = #runtime::detached!(self);
                #runtime::begin();
                #copy.get(self).#reference(#(#arguments),*)
            }),
            runs_once: false,
        }
    });
    let composition = (kernel.contract.composition)(&call(site, kernel, open_rank));

    let id = kernel.contract.id;
    let docs = format!(
        "{}\n\nRuns the kernel `{id}` ({}) where the device has it, else [`Self::{reference}`].",
        (kernel.contract.docs)(&kernel.key),
        kernel.key.written(),
    );
    let reference_docs = format!(
        "The plain computation of [`Self::{method}`], which the kernel `{id}` is verified against."
    );
    quote! {
        #tokens

        #(#attributes)*
        impl #impl_generics #name #type_generics #where_clause {
            #[doc = #docs]
            #[track_caller]
            #visibility fn #method #signature { #body }

            #[doc = #reference_docs]
            #visibility fn #reference #signature { #composition }
        }
    }
}

/// The parameters: each tensor that flows through, with its role.
fn flowing(kernel: &BuiltIn) -> Vec<(Ident, Role)> {
    let bindings = kernel.bindings.iter();
    let flowing = bindings.filter_map(|binding| match &binding.place {
        Place::Parameter { name, .. } => Some((name.clone(), binding.operand.role)),
        Place::Field(_) | Place::OfElement(_) | Place::Constant(_) => None,
    });
    flowing.collect()
}

/// From the generics to the return type. A rank that the kernel leaves open is a parameter.
pub(crate) fn signature(
    runtime: &TokenStream,
    returns: Returns,
    generics: &Generics,
    flowing: &[(Ident, Role)],
) -> TokenStream {
    let open_rank = open_rank(generics, flowing);
    let tensor = |rank: Option<usize>| {
        let rank = match rank {
            Some(rank) => quote!(#rank),
            None => quote!(#open_rank),
        };
        quote!(#runtime::burn::tensor::Tensor<#rank>)
    };

    let parameters = flowing.iter().map(|(name, role)| {
        let tensor = match role {
            Role::Indices => {
                quote!(#runtime::burn::tensor::Tensor<2usize, #runtime::burn::tensor::Int>)
            }
            Role::Targets => {
                quote!(#runtime::burn::tensor::Tensor<1usize, #runtime::burn::tensor::Int>)
            }
            role => tensor(role.rank()),
        };
        quote!(#name: #tensor)
    });
    let generics = open_rank
        .as_ref()
        .map(|open_rank| quote!(<const #open_rank: usize>));
    let first = tensor(flowing.first().and_then(|(_, role)| role.rank()));
    let result = match returns {
        Returns::Tensor | Returns::PairWith { .. } => first,
        Returns::Loss => tensor(Some(1)),
        Returns::Pair { .. } => quote!((#first, #first)),
        Returns::WithLogits => {
            let logits = tensor(Some(2));
            quote!((#first, #logits))
        }
    };
    quote!(#generics (&self, #(#parameters),*) -> #result)
}

/// The parameter for the rank of the tensors that flow through, if the kernel leaves it open.
fn open_rank(generics: &Generics, flowing: &[(Ident, Role)]) -> Option<Ident> {
    let is_open = flowing.iter().any(|(_, role)| role.rank().is_none());
    is_open.then(|| free_name(generics))
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
