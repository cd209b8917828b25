//! The comparison of digests between ranks.

use crate::{Error, ErrorKind};

/// The most ranks that an error names one by one.
const NAMED: usize = 8;

/// Compares the ranks' digests and the names under which they compare them. The error names the ranks that differ from
/// most, or from rank 0 if there are two halves.
pub(crate) fn compare(items: &[(String, Vec<u8>)], names: &[String]) -> Result<(), Error> {
    let what = most_common(items, |(what, _)| what);
    if let Some(other) = items.iter().position(|(own, _)| own != what) {
        let problem = format!(
            "{} compares the {}, but most ranks the {what}",
            names[other], items[other].0
        );
        return Err(Error::new(ErrorKind::Differs, problem));
    }
    let digest = most_common(items, |(_, digest)| digest);
    let differ: Vec<_> = (0..items.len())
        .filter(|rank| items[*rank].1 != *digest)
        .collect();
    if differ.is_empty() {
        return Ok(());
    }
    let like = (0..items.len())
        .find(|rank| items[*rank].1 == *digest)
        .expect("the most common one");
    let others = match items.len() - differ.len() {
        1 => names[like].clone(),
        count => format!("{} and {} more", names[like], ranks(count - 1)),
    };
    let (listed, verb) = (
        list(&differ, names),
        if differ.len() == 1 {
            "differs"
        } else {
            "differ"
        },
    );
    Err(Error::new(
        ErrorKind::Differs,
        format!("{listed} {verb} in the {what} from {others}"),
    ))
}

/// Returns the value that most items have, and with equal numbers the first one.
fn most_common<'a, I, T: PartialEq>(items: &'a [I], value: impl Fn(&'a I) -> &'a T) -> &'a T {
    let count = |of: &T| items.iter().filter(|item| value(item) == of).count();
    let mut best = value(&items[0]);
    for item in &items[1..] {
        if count(value(item)) > count(best) {
            best = value(item);
        }
    }
    best
}

/// Returns the names of some ranks, and the number of those beyond the first eight.
pub(crate) fn list(some: &[usize], names: &[String]) -> String {
    let shown: Vec<_> = some
        .iter()
        .take(NAMED)
        .map(|rank| names[*rank].as_str())
        .collect();
    match some.len().checked_sub(NAMED) {
        Some(more @ 1..) => format!("{} and {} more", shown.join(", "), ranks(more)),
        _ => shown.join(", "),
    }
}

fn ranks(count: usize) -> String {
    match count {
        1 => "1 rank".into(),
        _ => format!("{count} ranks"),
    }
}
