//! Names and calls that tell what the user's code computes: where they tell something else than
//! the settings, the pairing cannot be right.

use proc_macro2::Ident;

use crate::contract::{Contract, Key, Tell};
use crate::errors::Errors;
use crate::scan::calls;
use crate::target::Function;

/// Refuses an item whose name means another computation.
pub(super) fn refuse_item<'a>(
    contract: &'static Contract,
    key: &Key,
    names: impl IntoIterator<Item = &'a Ident>,
    errors: &mut Errors,
) {
    for name in names {
        let tell = contract.item_names.iter().find(|tell| means(tell, name));
        if let Some(tell) = tell.filter(|tell| misfits(tell, key)) {
            let (id, advice) = (contract.id, tell.advice);
            errors.at(
                name,
                format!("`{name}` is not what `{id}` computes here: {advice}"),
            );
        }
    }
}

/// Refuses a body that calls one function of which the settings say that it is another. A body
/// that calls several, such as one that branches, tells nothing.
pub(super) fn refuse_body(
    contract: &'static Contract,
    key: &Key,
    function: &Function,
    errors: &mut Errors,
) {
    let called = calls(function.body.stream());
    let told: Vec<(&Tell, &Ident)> = contract
        .body_calls
        .iter()
        .filter_map(|tell| Some((tell, called.iter().find(|name| means(tell, name))?)))
        .collect();
    if let [(tell, name)] = told[..]
        && misfits(tell, key)
    {
        let (id, advice) = (contract.id, tell.advice);
        let message = format!("the body calls `{name}`, which `{id}` does not here: {advice}");
        errors.at(name, message);
    }
}

fn means(tell: &Tell, name: &Ident) -> bool {
    let word = name.to_string().to_lowercase().replace('_', "");
    tell.words.contains(&word.as_str())
}

fn misfits(tell: &Tell, key: &Key) -> bool {
    tell.fits
        .is_none_or(|fits| key.holds(Some(fits)) == Some(false))
}
