//! The tables of the attribute's documentation say what the contracts hold.

use super::*;

const KERNELS: &str = include_str!("../../kernels.md");

/// A name of a table's first column, and what the second has in backticks.
#[derive(Debug)]
struct Row {
    name: &'static str,
    values: Vec<&'static str>,
}

/// Returns the text under a heading, up to the next one that begins alike.
fn under(text: &'static str, heading: &str) -> &'static str {
    let (level, _) = heading.split_once(' ').unwrap();
    let (_, rest) = text
        .split_once(&format!("\n{heading}\n"))
        .unwrap_or_else(|| panic!("{heading} is missing"));
    rest.split(&format!("\n{level} ")).next().unwrap_or(rest)
}

fn section(contract: &Contract) -> &'static str {
    let kernel = under(KERNELS, &format!("## `{}`", contract.id));
    match contract.variant {
        [] | [("part", "heads")] => kernel,
        [("part", "layer")] => under(kernel, "### Layers"),
        [("part", "block"), ..] => under(kernel, "### Blocks"),
        _ => under(kernel, "### Experts"),
    }
}

fn in_backticks(cell: &'static str) -> Vec<&'static str> {
    cell.split('`').skip(1).step_by(2).collect()
}

/// The rows of the table whose first column has this head. A kernel without settings has no table of them.
fn table(section: &'static str, head: &str) -> Vec<Row> {
    let Some((_, rest)) = section.split_once(&format!("\n| {head} |")) else {
        return Vec::new();
    };
    let lines = rest.lines().skip(2);
    let lines = lines.take_while(|line| line.starts_with('|'));
    lines
        .flat_map(|line| {
            let cells: Vec<_> = line.split('|').collect();
            let [names, values] = [cells[1], cells[2]].map(in_backticks);
            names.into_iter().map(move |name| Row {
                name,
                values: match values[..] {
                    [id] if cells[2].contains("as of") => row(id, name),
                    _ => values.clone(),
                },
            })
        })
        .collect()
}

/// The values of a setting of another kernel.
fn row(id: &str, name: &str) -> Vec<&'static str> {
    let rows = table(section(Contract::find(id).unwrap()), "setting");
    let row = rows.into_iter().find(|row| row.name == name);
    row.map(|row| row.values).unwrap_or_default()
}

/// Settings and what tells variants apart, with their values.
fn arguments(contract: &Contract) -> Vec<(&'static str, Vec<&'static str>)> {
    let variant = contract.variant.iter();
    let variant = variant.map(|&(name, value)| (name, vec![value]));
    let settings = contract.settings.iter().map(|setting| {
        let choices = setting.choices.iter();
        (setting.name, choices.map(|choice| choice.written).collect())
    });
    variant.chain(settings).collect()
}

/// The operands that the table has; the others are found in ways of their own, which prose tells.
fn operands(contract: &'static Contract) -> impl Iterator<Item = &'static Operand> {
    let all = contract.shapes().flat_map(|shape| shape.operands);
    all.filter(|operand| !matches!(operand.role, Role::Stream | Role::OfElement))
}

/// The contracts that a section is about.
fn described(section: &'static str) -> impl Iterator<Item = &'static Contract> {
    let all = CONTRACTS.iter().copied();
    all.filter(move |contract| std::ptr::eq(self::section(contract), section))
}

#[test]
fn settings_and_their_values_are_documented() {
    for contract in CONTRACTS {
        let rows = table(section(contract), "setting");
        for (name, choices) in arguments(contract) {
            // The heading tells this one.
            if name == "part" {
                continue;
            }
            let row = rows.iter().find(|row| row.name == name);
            let row = row.unwrap_or_else(|| panic!("{}: {name} has no row", contract.id));
            let of_one = choices.len() == 1 && row.values.contains(&choices[0]);
            assert!(of_one || row.values == choices, "{choices:?}: {row:?}");
        }
    }
}

#[test]
fn operands_and_their_usual_names_are_documented() {
    for contract in CONTRACTS {
        let rows = table(section(contract), "operand");
        for operand in operands(contract) {
            let row = rows.iter().find(|row| row.name == operand.name);
            let row = row.unwrap_or_else(|| panic!("{}: {}", contract.id, operand.name));
            assert_eq!(row.values, operand.usual, "{}: {row:?}", contract.id);
        }
    }
}

#[test]
fn what_is_documented_is_in_a_contract() {
    for section in CONTRACTS.iter().map(|contract| section(contract)) {
        for Row { name, values } in table(section, "setting") {
            for value in values {
                let known = described(section).flat_map(arguments);
                let mut known = known.filter(|(argument, _)| *argument == name);
                let is_known = known.any(|(_, choices)| choices.contains(&value));
                assert!(is_known, "{name} = {value}");
            }
        }
        for Row { name, .. } in table(section, "operand") {
            let mut known = described(section).flat_map(operands);
            assert!(known.any(|operand| operand.name == name), "{name}");
        }
    }
}
