//! The semantics key: the parameters of the maths, from the attribute or by default.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{format_ident, quote};
use syn::{Error, Result};

use super::arguments::Arguments;
use crate::attr::Argument;
use crate::contract::{Choice, Contract, Setting};
use crate::errors::Errors;
use crate::near::{did_you_mean, list};

/// A complete key. Its tokens and its JSON come from the same choices, so they cannot differ.
pub(crate) struct Key {
    contract: &'static Contract,
    choices: Vec<(&'static Setting, &'static Choice)>,
}

impl Key {
    /// Reads every setting; a setting that is not given has its contract's first choice.
    pub(super) fn read(contract: &'static Contract, arguments: &Arguments<'_>) -> Result<Self> {
        let mut errors = Errors::default();
        let mut choices = Vec::new();
        for setting in contract.settings {
            let choice = match arguments.get(setting.name) {
                Some(argument) => errors.keep(choose(setting, argument)),
                None => setting.choices.first(),
            };
            choices.extend(choice.map(|choice| (setting, choice)));
        }
        errors.finish(Some(Self { contract, choices }))
    }

    /// The key as a `SemanticsKey`, its names bare.
    pub(crate) fn tokens(&self) -> TokenStream {
        let variant = format_ident!("{}", self.contract.key);
        let value = self.struct_tokens(&TokenStream::new());
        quote!(SemanticsKey::#variant(#value))
    }

    /// The key's own struct, its names reached through `path::`.
    pub(crate) fn value(&self, path: &TokenStream) -> TokenStream {
        self.struct_tokens(&quote!(#path::))
    }

    /// The key as one line of JSON.
    pub(crate) fn json(&self) -> String {
        let settings = self
            .choices
            .iter()
            .map(|(setting, choice)| (setting.name, choice.json));
        let fields: Vec<_> = std::iter::once(("op", self.contract.op))
            .chain(settings)
            .map(|(name, value)| format!("\"{name}\":\"{value}\""))
            .collect();
        format!("{{{}}}", fields.join(","))
    }

    /// The settings as they would be written in the attribute.
    pub(crate) fn written(&self) -> String {
        let settings = self.choices.iter();
        let settings =
            settings.map(|(setting, choice)| format!("`{} = {}`", setting.name, choice.written));
        settings.collect::<Vec<_>>().join(", ")
    }

    fn struct_tokens(&self, prefix: &TokenStream) -> TokenStream {
        let key = format_ident!("{}Key", self.contract.key);
        let fields = self.choices.iter().map(|(setting, choice)| {
            let name = Ident::new(setting.name, Span::call_site());
            let (enum_, variant) = (
                format_ident!("{}", setting.type_name),
                format_ident!("{}", choice.variant),
            );
            quote!(#name: #prefix #enum_::#variant)
        });
        quote!(#prefix #key { #(#fields,)* ..#prefix #key::BASE })
    }
}

fn choose(setting: &'static Setting, argument: &Argument) -> Result<&'static Choice> {
    let (name, text) = (setting.name, argument.as_text());
    if let Some(choice) = setting.choices.iter().find(|choice| choice.written == text) {
        return Ok(choice);
    }
    let written = || setting.choices.iter().map(|choice| choice.written);
    let refused = setting.refused.iter().find(|(value, _)| *value == text);
    let unquoted = text.trim_matches('"');
    let message = if let Some((value, why)) = refused {
        let all = list(written(), "or");
        format!("`{name} = {value}` is not what this kernel computes: {why}\nit computes {all}")
    } else if written().any(|value| value == unquoted) {
        format!("write the value without quotes: `{name} = {unquoted}`")
    } else {
        let near = did_you_mean(&text, written());
        let all = list(written(), "or");
        format!("`{name}` cannot be `{text}`{near}\nit takes {all}")
    };
    Err(Error::new_spanned(&argument.value, message))
}
