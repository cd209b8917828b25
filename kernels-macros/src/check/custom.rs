//! Kernels of other crates: their operands are checked by rustc, against a struct of theirs.

use proc_macro2::{Ident, TokenStream};
use quote::ToTokens;
use syn::Path;
use syn::ext::IdentExt;

use super::arguments::COMMON;
use super::operands::{Parameter, given, parameters};
use crate::attr::{Argument, Attribute};
use crate::contract::Place;
use crate::errors::Errors;
use crate::scan::fields_read;
use crate::target::Function;

/// A kernel of another crate.
pub(crate) struct Custom {
    /// The module that describes it.
    pub(crate) path: Path,
    pub(crate) operands: Vec<Operand>,
}

/// A field of the kernel's `Operands`.
pub(crate) struct Operand {
    pub(crate) name: Ident,
    pub(crate) source: Source,
}

/// The source of an operand's value.
pub(crate) enum Source {
    /// A parameter, which is handed on to the reference.
    Flowing(Ident),
    /// A parameter by reference: cloned.
    Borrowed(Ident),
    /// A field of `self`: cloned.
    Field(Ident),
}

/// Every parameter is an operand, and every field that an argument names.
pub(super) fn bind(
    path: &Path,
    attribute: &Attribute,
    function: &Function,
    when: Option<&TokenStream>,
    errors: &mut Errors,
) -> Vec<Operand> {
    let parameters = parameters(function, errors);
    let mut operands = Vec::new();
    for argument in &attribute.arguments {
        let is_common = COMMON.iter().any(|common| argument.name == common);
        if !is_common && !argument.is_broken() {
            operands.extend(from_argument(argument, function, &parameters, errors));
        }
    }
    for parameter in &parameters {
        let is_named = operands.iter().any(|operand| operand.is_from(parameter));
        if !is_named {
            operands.push(Operand::from_parameter(parameter.name.clone(), parameter));
        }
    }
    refuse_twice(&operands, errors);
    refuse_unread_fields(path, function, &operands, when, errors);
    operands
}

fn from_argument(
    argument: &Argument,
    function: &Function,
    parameters: &[Parameter<'_>],
    errors: &mut Errors,
) -> Option<Operand> {
    let value = errors.keep(argument.as_name())?;
    let place = errors.keep(given(&value, parameters, function.has_receiver()))?;
    let name = argument.name.clone();
    Some(match place {
        Place::Field(field) | Place::OfElement(field) => Operand {
            name,
            source: Source::Field(field),
        },
        Place::Constant(_) => unreachable!("`given` finds names"),
        Place::Parameter { name: wanted, .. } => {
            let mut parameters = parameters.iter();
            let parameter = parameters.find(|parameter| *parameter.name == wanted)?;
            Operand::from_parameter(name, parameter)
        }
    })
}

impl Operand {
    fn from_parameter(name: Ident, parameter: &Parameter<'_>) -> Self {
        let source = match parameter.is_reference() {
            true => Source::Borrowed(parameter.name.clone()),
            false => Source::Flowing(parameter.name.clone()),
        };
        Self { name, source }
    }

    fn is_from(&self, parameter: &Parameter<'_>) -> bool {
        match &self.source {
            Source::Flowing(name) | Source::Borrowed(name) => name == parameter.name,
            Source::Field(_) => false,
        }
    }
}

impl Source {
    /// The name, if it is a field.
    fn field(&self) -> Option<&Ident> {
        match self {
            Self::Field(name) => Some(name),
            Self::Flowing(_) | Self::Borrowed(_) => None,
        }
    }

    fn is(&self, other: &Self) -> bool {
        self.field().is_some() == other.field().is_some() && self.name() == other.name()
    }

    fn name(&self) -> &Ident {
        match self {
            Self::Flowing(name) | Self::Borrowed(name) | Self::Field(name) => name,
        }
    }
}

/// One operand has one value, and one value is one operand.
fn refuse_twice(operands: &[Operand], errors: &mut Errors) {
    for (i, operand) in operands.iter().enumerate() {
        let Operand { name, source } = operand;
        for earlier in &operands[..i] {
            if earlier.name == *name {
                let value = earlier.source.name();
                let message = format!("the operand `{name}` is `{value}` already; rename this");
                errors.at(source.name(), message);
            } else if earlier.source.is(source) {
                let (value, other) = (source.name(), &earlier.name);
                errors.at(
                    name,
                    format!("`{value}` is bound to both `{other}` and `{name}`"),
                );
            }
        }
    }
}

/// A field that the body reads and the kernel does not get would be lost.
fn refuse_unread_fields(
    path: &Path,
    function: &Function,
    operands: &[Operand],
    when: Option<&TokenStream>,
    errors: &mut Errors,
) {
    if !function.has_receiver() {
        return;
    }
    let mut accounted = fields_read(when.cloned().unwrap_or_default());
    let fields = operands.iter().filter_map(|operand| operand.source.field());
    accounted.extend(fields.cloned());
    for field in fields_read(function.body.stream()) {
        if !accounted.contains(&field) {
            let path = path.to_token_stream().to_string().replace(' ', "");
            let operand = field.unraw();
            let message = format!(
                "the body reads `self.{field}`, which `{path}` would not get\n\
                 hand it over under the operand's name, as in `{operand} = {field}`, or use it \
                 before or after this function"
            );
            errors.at(&field, message);
        }
    }
}
