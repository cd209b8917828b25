//! Reads the semantics key: the parameters of the maths, from the attribute or by default.

use syn::Error;

use crate::attr::{Argument, Attribute};
use crate::contract::{Choice, Contract, Key, Setting};
use crate::errors::Errors;
use crate::near::{did_you_mean, list};

/// Reads every setting; one that is not given has its contract's first choice, and one in error
/// has none.
pub(crate) fn read(contract: &'static Contract, attribute: &Attribute, errors: &mut Errors) -> Key {
    let read = |setting: &'static Setting| {
        let choice = match attribute.get(setting.name) {
            Some(argument) if argument.is_broken() => None,
            Some(argument) => errors.keep(choose(setting, argument)),
            None => setting.choices.first(),
        };
        (setting, choice)
    };
    let choices = contract.settings.iter().map(read).collect();
    let key = Key::new(contract, choices);
    refuse_conflicts(contract, &key, attribute, errors);
    key
}

/// Reports settings that no computation has together, at the last one that is written.
fn refuse_conflicts(
    contract: &'static Contract,
    key: &Key,
    attribute: &Attribute,
    errors: &mut Errors,
) {
    for conflict in contract.conflicts {
        let holds = conflict
            .all
            .iter()
            .all(|condition| key.holds(Some(*condition)) == Some(true));
        let is_part = |argument: &&Argument| {
            let name = argument.name.to_string();
            conflict.all.iter().any(|part| part.setting == name)
        };
        let written = attribute.arguments.iter().rev().find(is_part);
        if let (true, Some(argument)) = (holds, written) {
            errors.at(&argument.value, conflict.message);
        }
    }
}

fn choose(setting: &'static Setting, argument: &Argument) -> syn::Result<&'static Choice> {
    let (name, text) = (setting.name, argument.as_text());
    if let Some(choice) = setting.choices.iter().find(|choice| choice.written == text) {
        return Ok(choice);
    }
    let written = || setting.choices.iter().map(|choice| choice.written);
    let bare = text.trim_matches('"');
    let other = setting.other_words.iter().find(|(word, _)| *word == bare);
    let message = if written().any(|value| value == bare) {
        format!("write the value without quotes: `{name} = {bare}`")
    } else if let Some((_, instead)) = other {
        format!("`{name} = {bare}` is written `{instead}`")
    } else if let [only] = setting.choices {
        format!("`{name}` is always `{}` here; leave it out", only.written)
    } else {
        let near = did_you_mean(&text, written());
        let all = list(written(), "or");
        format!("`{name}` cannot be `{text}`{near}\nit takes {all}")
    };
    Err(Error::new_spanned(&argument.value, message))
}
