//! The arguments after the kernel's id: which names there are, and looking one up.

use proc_macro2::{Ident, TokenStream};
use quote::quote;
use syn::{Error, Path, Result};

use crate::attr::{Argument, Attribute};
use crate::contract::{Contract, Role, Shape};
use crate::errors::Errors;
use crate::near::{did_you_mean, list};

const CRATE: &str = "crate";
const METHOD: &str = "method";

/// The arguments of an attribute, all of them known by name.
pub(super) struct Arguments<'a>(&'a [Argument]);

impl<'a> Arguments<'a> {
    /// Refuses names that the kernel does not know in this shape.
    pub(super) fn read(
        attribute: &'a Attribute,
        contract: &'static Contract,
        shape: &'static Shape,
        errors: &mut Errors,
    ) -> Self {
        let known = names(contract, shape);
        for Argument { name, .. } in &attribute.arguments {
            let written = name.to_string();
            if !known.contains(&written.as_str()) {
                let near = did_you_mean(&written, known.iter().copied());
                let all = list(&known, "and");
                let id = contract.id;
                errors.at(
                    name,
                    format!("`{id}` has no argument `{written}` here{near}\nit takes {all}"),
                );
            }
        }
        Self(&attribute.arguments)
    }

    /// The argument of this name.
    pub(super) fn get(&self, name: &str) -> Option<&'a Argument> {
        self.0.iter().find(|argument| argument.name == name)
    }

    /// The name after `method =`.
    pub(super) fn method(&self) -> Result<Option<Ident>> {
        self.get(METHOD).map(Argument::as_name).transpose()
    }

    /// Refuses `method =` where the attribute stands on the function itself.
    pub(super) fn no_method(&self, errors: &mut Errors) {
        if let Some(argument) = self.get(METHOD) {
            errors.at(
                &argument.name,
                "the attribute stands on the function itself; leave `method` out, or move the \
                 attribute to the impl block",
            );
        }
    }

    /// The path of the runtime's `__private` module, from `crate =`.
    pub(super) fn runtime(&self) -> Result<TokenStream> {
        let Some(argument) = self.get(CRATE) else {
            return Ok(quote!(::burn_kernels::__private));
        };
        let path: Path = syn::parse2(argument.value.clone()).map_err(|_| {
            let message =
                "`crate` takes the path of burn-kernels, as in `crate = ::my_facade::kernels`";
            Error::new_spanned(&argument.value, message)
        })?;
        Ok(quote!(#path::__private))
    }
}

fn names(contract: &Contract, shape: &Shape) -> Vec<&'static str> {
    let operands = shape
        .operands
        .iter()
        .filter(|operand| operand.role != Role::Stream);
    let settings = contract.settings.iter().map(|setting| setting.name);
    operands
        .map(|operand| operand.name)
        .chain(settings)
        .chain([METHOD, CRATE])
        .collect()
}
