//! Delta debugging (Zeller & Hildebrandt, "Simplifying and Isolating Failure-Inducing Input", IEEE
//! TSE 28(2), 2002).

/// Returns a part of `all` for which `fails` holds, and for which it stops holding if any one element is removed.
///
/// # Errors
/// Returns the first error of `fails`.
pub fn minimise<T: Clone, E>(
    all: Vec<T>,
    mut fails: impl FnMut(&[T]) -> Result<bool, E>,
) -> Result<Vec<T>, E> {
    let mut kept = all;
    let mut parts = 2;
    while kept.len() >= 2 {
        parts = parts.min(kept.len());
        let chunks = split(&kept, parts);
        if let Some(chunk) = first(&chunks, &mut fails)? {
            kept = chunk;
            parts = 2;
            continue;
        }
        // With two parts, the complement of one is the other.
        let complements = match parts {
            2 => Vec::new(),
            _ => (0..parts).map(|i| without(&chunks, i)).collect(),
        };
        if let Some(complement) = first(&complements, &mut fails)? {
            kept = complement;
            parts -= 1;
            continue;
        }
        if parts == kept.len() {
            break;
        }
        parts *= 2;
    }
    Ok(kept)
}

/// Returns the first candidate that fails.
fn first<T: Clone, E>(
    candidates: &[Vec<T>],
    fails: &mut impl FnMut(&[T]) -> Result<bool, E>,
) -> Result<Option<Vec<T>>, E> {
    for candidate in candidates {
        if fails(candidate)? {
            return Ok(Some(candidate.clone()));
        }
    }
    Ok(None)
}

/// Splits a list into `parts` stretches whose lengths differ by one at most.
fn split<T: Clone>(all: &[T], parts: usize) -> Vec<Vec<T>> {
    let bound = |i: usize| i * all.len() / parts;
    (0..parts)
        .map(|i| all[bound(i)..bound(i + 1)].to_vec())
        .collect()
}

fn without<T: Clone>(chunks: &[Vec<T>], left_out: usize) -> Vec<T> {
    let others = chunks.iter().enumerate().filter(|(i, _)| *i != left_out);
    others
        .flat_map(|(_, chunk)| chunk.iter().cloned())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs a search in which exactly the supersets of `culprits` fail. Returns the part found and the number of
    /// trials.
    fn search(size: usize, culprits: &[usize]) -> (Vec<usize>, usize) {
        let mut trials = 0;
        let found = minimise((0..size).collect(), |on| {
            trials += 1;
            Ok::<_, ()>(culprits.iter().all(|culprit| on.contains(culprit)))
        });
        (found.unwrap(), trials)
    }

    #[test]
    fn every_single_culprit_and_every_pair_is_found() {
        for size in 1..10 {
            for a in 0..size {
                assert_eq!(search(size, &[a]).0, [a]);
                for b in a + 1..size {
                    assert_eq!(search(size, &[a, b]).0, [a, b]);
                }
            }
        }
        assert_eq!(search(8, &[0, 3, 6, 7]).0, [0, 3, 6, 7]);
    }

    #[test]
    fn one_of_many_takes_few_trials() {
        let (found, trials) = search(64, &[41]);
        assert_eq!(found, [41]);
        assert!(trials <= 12, "{trials}");
    }

    #[test]
    fn errors_end_the_search() {
        assert_eq!(minimise(vec![1, 2], |_| Err("no")), Err("no"));
    }
}
