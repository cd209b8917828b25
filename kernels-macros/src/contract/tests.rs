//! Tests of the properties that the rest of the crate expects of every contract.

use super::*;

fn conditions(contract: &'static Contract) -> Vec<Condition> {
    let operands = contract
        .shapes()
        .flat_map(|shape| shape.operands.iter())
        .flat_map(|operand| operand.when.conditions().iter().copied());
    let conflicts = contract
        .conflicts
        .iter()
        .flat_map(|c| c.all.iter().copied());
    let foreign = contract.foreign_fields.iter().filter_map(|f| f.unless);
    let tells = contract.item_names.iter().chain(contract.body_calls);
    operands
        .chain(conflicts)
        .chain(foreign)
        .chain(tells.filter_map(|tell| tell.fits))
        .collect()
}

/// Every combination of choices.
fn keys(contract: &'static Contract) -> Vec<Key> {
    let mut all = vec![Vec::new()];
    for setting in contract.settings {
        all = all
            .into_iter()
            .flat_map(|choices: Vec<_>| {
                setting.choices.iter().map(move |choice| {
                    let mut choices = choices.clone();
                    choices.push((setting, Some(choice)));
                    choices
                })
            })
            .collect();
    }
    all.into_iter()
        .map(|choices| Key::new(contract, choices))
        .collect()
}

#[test]
fn conditions_name_settings_and_their_values() {
    for contract in CONTRACTS {
        for Condition { setting, values } in conditions(contract) {
            let found = contract.settings.iter().find(|s| s.name == setting);
            let choices = found.unwrap_or_else(|| panic!("{}: {setting}", contract.id));
            for value in values {
                let known = choices
                    .choices
                    .iter()
                    .any(|choice| choice.written == *value);
                assert!(known, "{}: {setting} = {value}", contract.id);
            }
        }
    }
}

#[test]
fn names_of_arguments_are_unique() {
    for contract in CONTRACTS {
        let variant = contract.variant.iter().map(|(name, _)| *name);
        let settings = contract.settings.iter().map(|setting| setting.name);
        let settings = variant.chain(settings);
        let common = ["crate", "method", "layer", "when"];
        for shape in contract.shapes() {
            let mut all: Vec<&str> = settings.clone().chain(common).collect();
            for operand in shape.operands {
                // An operand may stand twice, in other roles under other settings.
                if !all.contains(&operand.name) || operand.when.conditions().is_empty() {
                    all.push(operand.name);
                }
                let is_looked_up = !matches!(operand.role, Role::Stream | Role::OfElement);
                assert!(!is_looked_up || operand.usual.contains(&operand.name));
            }
            let count = all.len();
            all.sort_unstable();
            all.dedup();
            assert_eq!(all.len(), count, "{}: a name is used twice", contract.id);
        }
    }
}

#[test]
fn under_every_key_an_operand_stands_once() {
    for contract in CONTRACTS {
        for key in keys(contract) {
            for shape in contract.shapes() {
                let mut names: Vec<_> = shape.operands_of(&key).map(|o| o.name).collect();
                assert!(!names.is_empty());
                let count = names.len();
                names.sort_unstable();
                names.dedup();
                assert_eq!(names.len(), count, "{}: {}", contract.id, key.written());
            }
        }
    }
}

/// The defaults are a computation, and what a conflict excludes is told by a written setting.
#[test]
fn defaults_do_not_conflict() {
    for contract in CONTRACTS {
        let defaults = contract.settings.iter();
        let defaults = defaults.map(|setting| (setting, setting.choices.first()));
        let key = Key::new(contract, defaults.collect());
        for conflict in contract.conflicts {
            let holds = |condition: &Condition| key.holds(Some(*condition)) == Some(true);
            assert!(!conflict.all.iter().all(holds), "{}", conflict.message);
        }
    }
}

#[test]
fn advice_names_choices_that_exist() {
    for contract in CONTRACTS {
        for setting in contract.settings {
            for (word, advice) in setting.other_words {
                let pairs = advice.split('`').filter(|part| part.contains(" = "));
                for (name, value) in pairs.filter_map(|pair| pair.split_once(" = ")) {
                    let value = value.trim();
                    let known = contract.settings.iter().any(|setting| {
                        setting.name == name && setting.choices.iter().any(|c| c.written == value)
                    });
                    assert!(known, "{}: {word}: {advice}", contract.id);
                }
            }
        }
    }
}

#[test]
fn docs_of_every_key_are_whole_sentences() {
    for contract in CONTRACTS {
        for key in keys(contract) {
            let docs = (contract.docs)(&key);
            assert!(docs.ends_with('.') && !docs.contains("  "), "{docs}");
            assert_eq!(docs.matches('`').count() % 2, 0, "{docs}");
        }
    }
}
